"""Writes runs of a test of the network where a user wants them: a drawing, a file of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result
from uenvtool.doctor.finding import Examination
from uenvtool.doctor.network import Run, compared
from uenvtool.doctor.plot import svg
from uenvtool.doctor.request import DoctorRequest
from uenvtool.doctor.runs import WHAT_IS_READ, keep, read_runs

DRAWING = ".svg"


def write(examination: Examination, request: DoctorRequest) -> Iterator[str]:
    """Keep the runs, write the file of -o, and yield what was written.

    Raises BadInput without a test of the network in the log, where one is needed, and for a file of somebody else's.
    """
    earlier: list[Run] = []
    if request.keep:
        earlier = keep(request.keep, _some(examination.runs))
        yield f"{request.keep}: kept; earlier runs there: {len(earlier)}"
    if request.output:
        yield _written(request.output, [*earlier, *_some(examination.runs)], force=request.force)


def compare(paths: Sequence[Path], request: DoctorRequest) -> Result:
    """Return runs side by side, and write the file of -o. Raises BadInput for less than two."""
    runs = list(read_runs(paths, system=request.system))
    if len(runs) < 2:
        raise BadInput(
            f"--compare needs two runs, and found {len(runs)}",
            hint="name two or more logs, or a file that --keep wrote",
        )
    notes = []
    if request.output:
        notes.append(_written(request.output, runs, force=request.force))
    return Result(data={"runs": [run.data() for run in runs]}, tables=tuple(compared(runs)), notes=tuple(notes))


def _some(runs: Sequence[Run]) -> Sequence[Run]:
    if not runs:
        raise BadInput("no test of the network is in the log", hint=WHAT_IS_READ)
    return runs


def _written(output: Path, runs: Sequence[Run], *, force: bool) -> str:
    """Draw the runs of the last one's test, and return what was written. Raises BadInput for a name of another kind."""
    if output.suffix != DRAWING:
        raise BadInput(f"-o {output}: it is a drawing of the bandwidth", hint="name it FILE.svg")
    text = svg([run for run in runs if run.test == runs[-1].test])
    files.write_beside(output.parent, {output.name: text}, force=force)
    return f"{output}: open it in a browser"

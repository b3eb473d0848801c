"""Files that a job left: its output, and the dumps of PyTorch's flight recorder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput, Position
from uenvtool.doctor.dumps import dumps_among
from uenvtool.doctor.finding import Examination, joined
from uenvtool.doctor.log.read import STANDARD_INPUT, examine_logs


def refuse_empty(paths: Sequence[Path]) -> None:
    """Raise BadInput if no log that a user names has a byte: that nothing is wrong in it would mislead."""
    if all(path.is_file() and not path.stat().st_size for path in paths):
        hint = "the job has written nothing yet, or writes elsewhere: `scontrol show job ID` names its StdOut"
        raise BadInput("the log is empty", Position(str(paths[0])), hint)


def examine_files(paths: Sequence[Path], *, system: str | None = None, nodes: Sequence[str] = ()) -> Examination:
    """Return what logs and dumps say together; of a folder its dumps are read.

    nodes: of the job, which its ranks fill one after the other. Raises BadInput for what cannot be opened, for a folder
    without a dump, and for a system that does not exist.
    """
    dumps = dumps_among(path for path in paths if path != STANDARD_INPUT)
    logs = [path for path in paths if path not in dumps and not path.is_dir()]
    if not dumps and not logs:
        hint = "name the logs in it; dumps are what `uenvtool job --workaround flight-recorder` makes the ranks write"
        raise BadInput(f"{paths[0]} is a folder, and no dump of PyTorch's flight recorder is in it", hint=hint)
    parts = [examine_logs(logs, system=system, nodes=len(nodes))] if logs else []
    if dumps:
        from uenvtool.doctor.hang import examine_dumps

        parts.append(examine_dumps(dumps, nodes))
    return joined(parts)

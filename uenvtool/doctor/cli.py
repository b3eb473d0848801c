"""The command `doctor`, which diagnoses logs, a Slurm job, all ranks of this job, or this shell."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from uenvtool.core.errors import BadInput
from uenvtool.core.options import Commands, command
from uenvtool.core.result import Result
from uenvtool.doctor.request import DoctorRequest

if TYPE_CHECKING:
    from uenvtool.doctor.finding import Examination


app = Commands()


@app.command()
@command(DoctorRequest)
def doctor(request: DoctorRequest) -> Result | None:
    """Diagnose this shell, a job, or a log, and print the worst problem first.

    `uenvtool doctor`: check this shell, batch job or container
    `uenvtool doctor --log FILE`: read a job's output
    `uenvtool doctor DIRECTORY`: read dumps of PyTorch's flight recorder
    `uenvtool doctor --job ID`: read the data that Slurm keeps about a job
    `uenvtool doctor --job ID --hang`: show where each rank of a running job waits
    `srun uenvtool doctor --ranks`: check every rank of a job
    `uenvtool doctor --stack`: list the libraries that torch and MPI use

    Exit code 1 if a problem is found.

    `uenvtool explain ID` prints all details of a finding.
    """
    from uenvtool.doctor.finding import cleaned
    from uenvtool.doctor.plot import draw
    from uenvtool.doctor.report import report

    subjects = {
        "--stack": request.stack,
        "--ranks": request.ranks,
        "--job": request.job,
        "a log": request.log or request.files,
    }
    if len(given := [name for name in subjects if subjects[name]]) > 1:
        raise BadInput(f"{given[0]} cannot be used together with {given[1]}", hint="run doctor once for each of them")
    if request.stack:
        from uenvtool.doctor.software import stack

        return stack(os.environ)
    what, examination = _examined(request)
    if examination is None:  # another rank reports
        return None
    examination = cleaned(examination)
    notes = [draw(request.output, examination.runs, force=request.force)] if request.output else []
    return report(examination, request, what=what, notes=notes)


def _examined(request: DoctorRequest) -> tuple[str, Examination | None]:
    logs = [*request.log, *request.files]
    if logs:
        from uenvtool.doctor.files import examine_files, require_logs

        require_logs(logs)
        what = "the log" if len(logs) == 1 else f"{len(logs)} logs"
        return what, examine_files(logs, system=request.system)
    names = {"system": request.system, "runtime": request.runtime, "recipe": request.recipe}
    if request.hang:
        from uenvtool.doctor.stacks import examine_hang

        if not request.job:
            raise BadInput("--hang needs the ID of a running job", hint="write `uenvtool doctor --job ID --hang`")
        return f"job {request.job}", examine_hang(request.job, os.environ)
    if request.job:
        from uenvtool.doctor.job import examine_job

        return f"job {request.job}", examine_job(request.job, **names)
    from uenvtool.doctor.shell import examine_shell

    examine = functools.partial(examine_shell, os.environ, **names)
    if not request.ranks:
        return "this shell", examine()
    from uenvtool.doctor.ranks import examine_ranks

    return "the ranks", examine_ranks(os.environ, request.folder, seconds=request.wait, examine=examine)

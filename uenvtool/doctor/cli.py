"""The command `doctor`, and what it looks at."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import typer

from uenvtool.core.options import command
from uenvtool.core.result import Result
from uenvtool.doctor.request import DoctorRequest

if TYPE_CHECKING:
    from uenvtool.doctor.finding import Examination


app = typer.Typer()


@app.command()
@command(DoctorRequest)
def doctor(request: DoctorRequest) -> Result | None:
    """Say what is slow or wrong, the worst first, in this shell, job or container.

    `uenvtool doctor --log job.out` reads a job's output, or the folder of PyTorch's
    flight recorder; `uenvtool doctor --job 123456` whatever Slurm has of a job;
    with `srun uenvtool doctor --ranks` every rank of a job looks.

    Exit code 1 if something is wrong. `uenvtool explain ID` says all of a finding.
    """
    logs = [*request.log, *request.files]
    from uenvtool.doctor.finding import cleaned
    from uenvtool.doctor.report import report

    def show(seen: Examination, *, what: str) -> Result:
        examination = cleaned(seen)
        notes: tuple[str, ...] = ()
        if request.output:
            from uenvtool.doctor.plot import draw

            notes = (draw(request.output, examination.runs, force=request.force),)
        return report(examination, request, what=what, notes=notes)

    names = {"system": request.system, "runtime": request.runtime, "recipe": request.recipe}
    if logs:
        from uenvtool.doctor.files import examine_files, refuse_no_log

        refuse_no_log(logs)
        what = "the log" if len(logs) == 1 else f"{len(logs)} logs"
        return show(examine_files(logs, system=request.system), what=what)
    if request.job:
        from uenvtool.doctor.job import examine_job

        return show(examine_job(request.job, **names), what=f"job {request.job}")
    from uenvtool.doctor.here import examine_here

    look = functools.partial(examine_here, os.environ, **names)
    if not request.ranks:
        return show(look(), what="this shell")
    from uenvtool.doctor.ranks import examine_ranks

    together = examine_ranks(os.environ, request.folder, seconds=request.wait, look=look)
    return show(together, what="what the ranks looked at") if together else None  # another rank reports

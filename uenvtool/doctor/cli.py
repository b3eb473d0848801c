"""The command `doctor` and the choice of its input."""

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
    """Diagnose this shell, a job, or a log, and print the worst problem first.

    `uenvtool doctor`: check this shell, batch job or container
    `uenvtool doctor --log FILE`: read a job's output
    `uenvtool doctor DIRECTORY`: read dumps of PyTorch's flight recorder
    `uenvtool doctor --job ID`: read the data that Slurm keeps about a job
    `srun uenvtool doctor --ranks`: check every rank of a job

    Exit code 1 if a problem is found.

    `uenvtool explain ID` prints all details of a finding.
    """
    logs = [*request.log, *request.files]
    from uenvtool.doctor.finding import cleaned
    from uenvtool.doctor.report import report

    def show(unfiltered: Examination, *, what: str) -> Result:
        examination = cleaned(unfiltered)
        notes: tuple[str, ...] = ()
        if request.output:
            from uenvtool.doctor.plot import draw

            notes = (draw(request.output, examination.runs, force=request.force),)
        return report(examination, request, what=what, notes=notes)

    names = {"system": request.system, "runtime": request.runtime, "recipe": request.recipe}
    if logs:
        from uenvtool.doctor.files import examine_files, require_logs

        require_logs(logs)
        what = "the log" if len(logs) == 1 else f"{len(logs)} logs"
        return show(examine_files(logs, system=request.system), what=what)
    if request.job:
        from uenvtool.doctor.job import examine_job

        return show(examine_job(request.job, **names), what=f"job {request.job}")
    from uenvtool.doctor.shell import examine_shell

    examine = functools.partial(examine_shell, os.environ, **names)
    if not request.ranks:
        return show(examine(), what="this shell")
    from uenvtool.doctor.ranks import examine_ranks

    combined = examine_ranks(os.environ, request.folder, seconds=request.wait, examine=examine)
    return show(combined, what="the ranks") if combined else None  # another rank reports

"""What is slow or wrong: chooses what is looked at, and reports."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uenvtool.core.result import Result
    from uenvtool.doctor.python import Answer


def doctor(
    *,
    logs: Sequence[Path] = (),
    system: str | None = None,
    runtime: str | None = None,
    recipe: str | None = None,
    job: str | None = None,
    ranks: bool = False,
    folder: Path | None = None,
    seconds: float = 60,
    fix: bool = False,
    verbose: bool = False,
) -> Result | None:
    """The report on what is named, else on this shell; None on a rank that leaves it to another one.

    job: report on a job that Slurm knows. ranks: report on all ranks of this job, on one of them. folder: where they
    write. seconds: how long they are waited for. Raises BadInput for a file that cannot be opened and for a name that
    does not exist, ToolMissing if Slurm is asked for and not here.
    """
    answer_of_python = None if logs or job else _answer_of_python()
    from uenvtool.doctor.report import report

    if logs:
        from uenvtool.doctor.log.read import examine_logs

        what = "the log" if len(logs) == 1 else f"{len(logs)} logs"
        return report(examine_logs(logs), what=what, fix=fix, verbose=verbose)
    if job:
        from uenvtool.doctor.job import examine_job

        found = examine_job(job, system=system, runtime=runtime, recipe=recipe)
        return report(found, what=f"job {job}", fix=fix, verbose=verbose)
    from uenvtool.doctor.here import examine_here

    look = functools.partial(
        examine_here, os.environ, system=system, runtime=runtime, recipe=recipe, answer_of_python=answer_of_python
    )
    if not ranks:
        return report(look(), what="this shell", fix=fix, verbose=verbose)
    from uenvtool.doctor.ranks import examine_ranks

    together = examine_ranks(os.environ, folder, seconds=seconds, look=look)
    return report(together, what="what the ranks looked at", fix=fix, verbose=verbose) if together else None


def _answer_of_python() -> Callable[[], Answer]:
    """Ask Python first of all: it starts while the rest of this program is loaded."""
    from uenvtool.doctor.python import start_asking

    return start_asking(os.environ)

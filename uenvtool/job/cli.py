"""The arguments of `job` and its verbs."""

from __future__ import annotations

import typer

from uenvtool.check.request import CheckRequest
from uenvtool.core.options import command, with_verbs
from uenvtool.core.result import Result
from uenvtool.job.request import JobRequest


@command(JobRequest)
def job(request: JobRequest) -> Result:
    """Write a job.

    `uenvtool job --account g123 --recipe pytorch-2.6 -- python train.py`

    What stands behind `--` is what runs, word by word. Without -o the job goes to stdout.

    Also: `uenvtool job check FILE...` finds the flaws of any batch script, `uenvtool job attach ID`
    opens a shell beside a rank of a running job.
    """
    from uenvtool.job.make import make

    return make(request)


@command(CheckRequest)
def check(request: CheckRequest) -> Result:
    """Find the flaws of batch scripts and EDFs, also of those that nobody here wrote.

    Exit code 1 if one is an error or a warning. A rule is kept from a line by the comment `# uenvtool: ignore=RULE`.
    """
    from uenvtool.check.lint import check_files as work

    return work(request)


def attach(
    job: str = typer.Argument(..., metavar="ID", help="The number of a running job of yours."),
    words: list[str] = typer.Argument(None, metavar="[-- COMMAND]", help="What to run; {pid} is the rank's process."),
    rank: int = typer.Option(0, metavar="N", help="The rank whose node, variables and uenv or container are taken."),
) -> int:
    """Open a shell beside a rank of a running job, or run a command there.

    `uenvtool job attach 1234 --rank 3 -- py-spy dump --pid {pid}`
    """
    import os

    from uenvtool.job.attach import attach as work

    work(job, rank, words or (), os.environ)


CLASS = with_verbs({"attach": attach, "check": check}, keep_behind=True)

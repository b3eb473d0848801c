"""The commands `job` and `attach`."""

from __future__ import annotations

from typing import Annotated

import typer

from uenvtool.core.options import Commands, WithProgram, command
from uenvtool.core.result import Result
from uenvtool.job.request import JobRequest

app = Commands()


@app.command(cls=WithProgram)
@command(JobRequest)
def job(request: JobRequest) -> Result:
    """Write a batch script, or the pod manifest or EDF that the runtime needs. Without -o, print it on stdout.

    `uenvtool job --account g123 --recipe pytorch-2.6 -- python train.py`
    """
    from uenvtool.job.make import make

    return make(request)


@app.command(cls=WithProgram)
def attach(
    job: Annotated[str, typer.Argument(metavar="ID", help="The ID of your running job.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...",
            help="The command to run; {pid} is replaced by the rank's process ID.",
            show_default=False,
        ),
    ] = None,
    rank: Annotated[
        int, typer.Option(metavar="N", help="The rank whose node, variables and uenv or container to use.")
    ] = 0,
) -> None:
    """Open a shell next to a rank of a running job, or run a command there.

    `uenvtool attach 1234 --rank 3 -- py-spy dump --pid {pid}`
    """
    import os

    from uenvtool.job.attach import attach as work

    work(job, rank, words or (), os.environ)

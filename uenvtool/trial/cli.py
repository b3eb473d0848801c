"""The command `try`."""

from __future__ import annotations

import typer

from uenvtool.core.options import command
from uenvtool.core.result import Result
from uenvtool.trial.request import TryRequest

app = typer.Typer()


@app.command("try")
@command(TryRequest)
def try_(request: TryRequest) -> Result:
    """Test whether a system is set up correctly and as fast as it should be, in a job of five minutes.

    `uenvtool try --account g123 --recipe pytorch-2.6`: run the tests on two nodes
    `uenvtool try logs/try-1234`: show the results of an earlier run

    Exit code 1 if a test fails.
    """
    from uenvtool.core import console
    from uenvtool.trial.submit import run

    return run(request, console.progress)

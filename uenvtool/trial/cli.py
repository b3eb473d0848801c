"""The commands `try` and `diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from uenvtool.core.options import Commands, Json, command
from uenvtool.core.result import Result
from uenvtool.trial.request import TryRequest

app = Commands()


@app.command("try")
@command(TryRequest)
def try_(request: TryRequest) -> Result:
    """Test whether a system is set up correctly and as fast as it should be, in one short job.

    `uenvtool try --account g123 --recipe pytorch-2.6`: run the tests on two nodes
    `uenvtool try logs/try-1234`: show the results of an earlier run

    Exit code 1 if a test fails.
    """
    from uenvtool.core import console
    from uenvtool.trial.submit import run

    return run(request, console.progress, console.note)


@app.command()
def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A recipe, environment, spack.lock, image, published table or run.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="An input of the same kind to compare with A.")],
    json_: Json = False,
) -> int:
    """Print the packages that differ between A and B, or the facts that differ between two runs. Exit with 1 if any do.

    A run is the log directory of a job, such as logs/train-1234, or a log.
    """
    from uenvtool.core import console
    from uenvtool.image.diff import diff as diff_packages
    from uenvtool.trial.compare import are_runs, diff_runs

    work = diff_runs if are_runs(before, after) else diff_packages
    return console.show(work(before, after), as_json=json_)

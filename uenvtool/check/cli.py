"""The command `check`."""

from __future__ import annotations

import typer

from uenvtool.check.request import CheckRequest
from uenvtool.core.options import command
from uenvtool.core.result import Result

app = typer.Typer()


@app.command()
@command(CheckRequest)
def check(request: CheckRequest) -> Result:
    """Find the flaws of batch scripts and EDFs, also of those that nobody here wrote.

    Exit code 1 if one is an error or a warning.
    The comment `# uenvtool: ignore=RULE` keeps a rule from a line.
    """
    from uenvtool.check.lint import check_files

    return check_files(request)

"""The command `check`."""

from __future__ import annotations

from uenvtool.check.request import CheckRequest
from uenvtool.core.options import Commands, command
from uenvtool.core.result import Result

app = Commands()


@app.command()
@command(CheckRequest)
def check(request: CheckRequest) -> Result:
    """Find problems in any batch script or EDF.

    Exit code 1 if a problem is an error or a warning.

    The comment `# uenvtool: ignore=RULE` disables a rule for its line.
    """
    from uenvtool.check.lint import check_files

    return check_files(request)

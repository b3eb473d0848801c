"""The arguments of `build`, `edit` and `diff`."""

from __future__ import annotations

import typer

from uenvtool.core.options import JSON, command
from uenvtool.core.result import Result
from uenvtool.env.request import BuildRequest, EditRequest


@command(BuildRequest)
def build(request: BuildRequest) -> Result:
    """Write the Spack environment of RECIPE for a system, and resolve it if Spack is here."""
    from uenvtool.core import console
    from uenvtool.env import build as work

    return work.build(request, console.progress)


@command(EditRequest)
def edit(request: EditRequest) -> Result:
    """Change a recipe's packages in its file, and show the change."""
    from uenvtool.env.edit import edit as work

    return work.edit(request)


def diff(
    before: str = typer.Argument(..., metavar="A", help="A recipe, environment folder, spack.lock or published table."),
    after: str = typer.Argument(..., metavar="B", help="What to compare it with; it can be of another kind."),
    json_: bool = JSON,
) -> int:
    """Compare the packages of A and B: added, removed, changed. Exit code 1 if they differ."""
    from uenvtool.core import console
    from uenvtool.env import diff as work

    return console.show(work.diff(before, after), as_json=json_)

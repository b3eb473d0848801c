"""`uenvtool diff`: what two recipes, environments, locks or published tables do not share."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def diff(
    before: str = typer.Argument(..., metavar="A", help="A recipe, environment folder, spack.lock or published table."),
    after: str = typer.Argument(..., metavar="B", help="What to compare it with; it can be of another kind."),
    json_: bool = JSON,
) -> int:
    """Compare the packages of A and B: added, removed, changed. Exit code 1 if they differ."""
    from uenvtool import console
    from uenvtool.commands import diff as command

    return console.show(command.diff(before, after), as_json=json_)

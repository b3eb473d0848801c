"""`uenvtool show`: a recipe or system with everything that it inherits, and where each value is from."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def show(
    name: str = typer.Argument(..., metavar="RECIPE|SYSTEM", help="A name, or the path of a file."),
    json_: bool = JSON,
) -> int:
    """Show a recipe or system with all that it inherits, each value with its file and line."""
    from uenvtool import console
    from uenvtool.commands import show as command

    return console.show(command.show(name), as_json=json_)

"""`uenvtool schema`: the JSON Schema of a kind of file, for editors."""

from __future__ import annotations

import typer


def schema(name: str = typer.Argument(..., metavar="recipe|system|tuning|published", help="The kind of file.")) -> int:
    """Print the JSON Schema of recipes, systems, tuning files or published tables."""
    from uenvtool import console
    from uenvtool.commands import schema as command

    return console.show(command.schema(name))

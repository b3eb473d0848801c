"""`uenvtool new`: a commented recipe or system of your own, to be edited."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON

new = typer.Typer(rich_markup_mode=None, help="Write a commented recipe or system of your own.")
NAME = typer.Argument(..., metavar="NAME", help="Its name: letters, digits, `.`, `_` and `-`.")


@new.command()
def recipe(
    name: str = NAME,
    from_: str | None = typer.Option(None, "--from", metavar="RECIPE", help="Extend this recipe."),
    json_: bool = JSON,
) -> int:
    """Write recipes/NAME/recipe.yaml in the current folder."""
    from uenvtool import console
    from uenvtool.commands import new as command

    return console.show(command.new_recipe(name, from_), as_json=json_)


@new.command()
def system(
    name: str = NAME,
    from_: str | None = typer.Option(None, "--from", metavar="SYSTEM", help="Extend this system."),
    json_: bool = JSON,
) -> int:
    """Write systems/NAME.yaml in the current folder."""
    from uenvtool import console
    from uenvtool.commands import new as command

    return console.show(command.new_system(name, from_), as_json=json_)

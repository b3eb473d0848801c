"""The arguments of `list`, `show`, `new` and `schema`."""

from __future__ import annotations

import typer

from uenvtool.core.options import JSON, WholeSentences


def list_(
    kind: str | None = typer.Argument(
        None, metavar="[recipes|systems|...]", help="What to list; default: recipes and systems, with --json all."
    ),
    json_: bool = JSON,
) -> int:
    """List recipes, containers, components, systems and tuning files: built-in ones and your own."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.list_(kind), as_json=json_)


def show(
    name: str = typer.Argument(..., metavar="RECIPE|SYSTEM", help="A name, or the path of a file."),
    json_: bool = JSON,
) -> int:
    """Show a recipe or system with all that it inherits, each value with its file and line."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.show(name), as_json=json_)


new = typer.Typer(rich_markup_mode=None, cls=WholeSentences, help="Write a commented recipe or system of your own.")
NAME = typer.Argument(..., metavar="NAME", help="Its name: letters, digits, `.`, `_` and `-`.")


@new.command()
def recipe(
    name: str = NAME,
    from_: str | None = typer.Option(None, "--from", metavar="RECIPE", help="Extend this recipe."),
    json_: bool = JSON,
) -> int:
    """Write recipes/NAME/recipe.yaml in the current folder."""
    from uenvtool.core import console
    from uenvtool.knowledge import new as command

    return console.show(command.new_recipe(name, from_), as_json=json_)


@new.command()
def system(
    name: str = NAME,
    from_: str | None = typer.Option(None, "--from", metavar="SYSTEM", help="Extend this system."),
    here: bool = typer.Option(False, "--here", help="Look at this machine: sinfo, GPUs, network, containers, modules."),
    fabric: str = typer.Option("", metavar="NAME", help="The network: slingshot, infiniband, roce or ethernet."),
    gpu: str = typer.Option("", metavar="MODEL:COUNT", help="The GPUs of a node, as in A100:4."),
    cores: int = typer.Option(0, metavar="N", min=0, help="The cores of a node, which its ranks share."),
    runtime: list[str] = typer.Option(
        [], metavar="NAME", help="How software is brought to the nodes; may be repeated."
    ),
    json_: bool = JSON,
) -> int:
    """Write systems/NAME.yaml in the current folder.

    With --here it says what was seen on this machine, and marks what was guessed; the options have the last word.
    """
    from uenvtool.core import console
    from uenvtool.knowledge import here as seen
    from uenvtool.knowledge import new as command

    found = seen.from_options(here=here, fabric=fabric, gpu=gpu, cores=cores, runtimes=runtime)
    return console.show(command.new_system(name, from_, found), as_json=json_)


def schema(
    name: str = typer.Argument(..., metavar="recipe|system|tuning|...", help="The kind of file."),
) -> int:
    """Print the JSON Schema of a kind of file."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.schema(name))

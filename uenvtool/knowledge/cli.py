"""The commands `list` and `schema`, and the group `new`."""

from __future__ import annotations

from typing import Annotated

import typer

from uenvtool.core.options import Json

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name: letters, digits, `.`, `_` and `-`.")]

app = typer.Typer()
new = typer.Typer(help="Write a commented recipe or system of your own.")
app.add_typer(new, name="new")


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[recipes|systems|...]",
            help="What to list; default: recipes and systems, with --json all.",
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """List recipes, containers, components, systems, tuning files and workarounds: built-in ones and your own."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.list_(kind), as_json=json_)


@new.command()
def recipe(
    name: Name,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="RECIPE", help="Extend this recipe, or read this folder of a Stackinator recipe."
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Write recipes/NAME/recipe.yaml in the current folder."""
    from uenvtool.core import console
    from uenvtool.knowledge import new as command

    return console.show(command.new_recipe(name, from_), as_json=json_)


@new.command()
def system(
    name: Name,
    from_: Annotated[str | None, typer.Option("--from", metavar="SYSTEM", help="Extend this system.")] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Look at this machine: sinfo, GPUs, network, containers, modules.")
    ] = False,
    fabric: Annotated[
        str, typer.Option(metavar="NAME", help="The network: slingshot, infiniband, roce or ethernet.")
    ] = "",
    gpu: Annotated[str, typer.Option(metavar="MODEL:COUNT", help="The GPUs of a node, as in A100:4.")] = "",
    cores: Annotated[int, typer.Option(metavar="N", min=0, help="The cores of a node, which its ranks share.")] = 0,
    runtime: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="How software is brought to the nodes; may be repeated.")
    ] = None,
    json_: Json = False,
) -> int:
    """Write systems/NAME.yaml in the current folder.

    With --here it says what was seen on this machine, and marks what was guessed;
    the options have the last word.
    """
    from uenvtool.core import console
    from uenvtool.knowledge import here as seen
    from uenvtool.knowledge import new as command

    found = seen.from_options(here=here, fabric=fabric, gpu=gpu, cores=cores, runtimes=runtime or [])
    return console.show(command.new_system(name, from_, found), as_json=json_)


@app.command()
def schema(
    name: Annotated[str, typer.Argument(metavar="recipe|system|tuning|...", help="The kind of file.")],
) -> int:
    """Print the JSON Schema of a kind of file."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.schema(name))

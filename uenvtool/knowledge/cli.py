"""The commands `list` and `schema`, and the command group `new`."""

from __future__ import annotations

from typing import Annotated

import typer

from uenvtool.core.options import Commands, Json

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The new file's name. Use letters, digits, `.`, `_` and `-`.")
]

app = Commands()
new = Commands(help="Write a commented recipe or system file for you to edit.")
app.add_typer(new, name="new")


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[recipes|systems|...]",
            help="The kind to list. Default: recipes and systems; with --json, all kinds.",
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """List recipes, containers, components, systems, tuning files and workarounds, both built-in and your own."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.list_(kind), as_json=json_)


@new.command()
def recipe(
    name: Name,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="RECIPE", help="Extend this recipe, or convert the Stackinator recipe in this directory."
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Write recipes/NAME/recipe.yaml in the current directory."""
    from uenvtool.core import console
    from uenvtool.knowledge import new as command

    return console.show(command.new_recipe(name, from_), as_json=json_)


@new.command()
def system(
    name: Name,
    from_: Annotated[str | None, typer.Option("--from", metavar="SYSTEM", help="Extend this system.")] = None,
    here: Annotated[
        bool,
        typer.Option("--here", help="Detect the partitions, GPUs, network, containers and modules of this machine."),
    ] = False,
    fabric: Annotated[
        str, typer.Option(metavar="NAME", help="The network: slingshot, infiniband, roce or ethernet.")
    ] = "",
    gpu: Annotated[str, typer.Option(metavar="MODEL:COUNT", help="The GPUs of a node, for example A100:4.")] = "",
    cores: Annotated[int, typer.Option(metavar="N", min=0, help="The CPU cores of a node, which its ranks share.")] = 0,
    runtime: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A runtime that provides software on the nodes. Can be repeated."),
    ] = None,
    json_: Json = False,
) -> int:
    """Write systems/NAME.yaml in the current directory.

    With --here, the command prints which programs it asked about this machine,
    and the file marks each guessed value. Other options override detected values.
    """
    from uenvtool.core import console
    from uenvtool.knowledge import detect
    from uenvtool.knowledge import new as command

    description = detect.from_options(here=here, fabric=fabric, gpu=gpu, cores=cores, runtimes=runtime or [])
    return console.show(command.new_system(name, from_, description), as_json=json_)


@app.command()
def schema(
    name: Annotated[
        str, typer.Argument(metavar="recipe|system|tuning|...", help="The kind of file that the schema describes.")
    ],
) -> int:
    """Print the JSON Schema of a kind of file."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as command

    return console.show(command.schema(name))

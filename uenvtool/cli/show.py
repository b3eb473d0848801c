"""`uenvtool show`: a recipe or system as it stands after `extends`, with where each value is from."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def show(
    name: str = typer.Argument(..., metavar="RECIPE|SYSTEM", help="A name, or the path of a file."),
    json_: bool = JSON,
) -> None:
    """Show a recipe or system resolved through `extends`, each value with its file and line."""
    from uenvtool import console
    from uenvtool.commands.show import provenance, resolved, text

    tree = resolved(name)
    if json_:
        console.result_json({"values": tree.plain(), "from": provenance(tree)})
    else:
        console.result(text(tree))

"""`uenvtool list`: the recipes and systems that there are."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def list_(
    kind: str = typer.Argument("all", metavar="[recipes|systems]", help="What to list; default: both."),
    json_: bool = JSON,
) -> None:
    """List the recipes and systems, built-in ones and your own."""
    from uenvtool import console
    from uenvtool.commands.list import catalogue
    from uenvtool.errors import BadInput, unknown

    kinds = ("recipes", "systems")
    if kind not in ("all", *kinds):
        raise BadInput([unknown("kind", kind, kinds)])
    chosen = {name: catalogue(name) for name in kinds if kind in ("all", name)}
    if json_:
        console.result_json(chosen)
        return
    texts = []
    for name, entries in chosen.items():
        rows = [(entry["name"], entry["for"], entry["description"]) for entry in entries]
        texts.append(console.table((name, "for" if name == "recipes" else "nodes", "description"), rows))
    console.result("\n\n".join(texts))

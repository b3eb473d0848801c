"""`uenvtool list`: the recipes, systems and tuning files that there are."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def list_(
    kind: str = typer.Argument("all", metavar="[recipes|systems|tuning]", help="What to list; default: all."),
    json_: bool = JSON,
) -> None:
    """List the recipes, systems and tuning files, built-in ones and your own."""
    from uenvtool import console
    from uenvtool.commands.list import catalogue
    from uenvtool.errors import BadInput, unknown
    from uenvtool.model.kinds import LISTED

    kinds = {each.folder: each for each in LISTED}
    if kind not in ("all", *kinds):
        raise BadInput([unknown("kind", kind, kinds)])
    chosen = {name: catalogue(each) for name, each in kinds.items() if kind in ("all", name)}
    if json_:
        console.result_json(chosen)
        return
    texts = []
    for name, entries in chosen.items():
        rows = [(entry["name"], entry["for"], entry["description"]) for entry in entries]
        texts.append(console.table((name, kinds[name].heading, "description"), rows))
    console.result("\n\n".join(texts))

"""`uenvtool list`: the files of each kind of knowledge that exist."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def list_(
    kind: str | None = typer.Argument(None, metavar="[recipes|systems|...]", help="What to list; default: all."),
    json_: bool = JSON,
) -> int:
    """List recipes, containers, components, systems and tuning files: built-in ones and your own."""
    from uenvtool import console
    from uenvtool.commands import list as command

    return console.show(command.list_(kind), as_json=json_)

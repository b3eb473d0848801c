"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from uenvtool.core.errors import BadInput
from uenvtool.knowledge import complete

SYSTEM = typer.Option(
    None,
    "--system",
    "-s",
    metavar="SYSTEM",
    help="The system; default: this one, else the recipe's home.",
    autocompletion=complete.systems,
)
THIS_SYSTEM = typer.Option(
    None, "--system", "-s", metavar="SYSTEM", help="The system; default: this one.", autocompletion=complete.systems
)
RECIPE = typer.Argument(
    ..., metavar="RECIPE", help="A recipe's name, or the path of its file.", autocompletion=complete.recipes
)
UARCH = typer.Option(None, "--uarch", metavar="UARCH", help="The node type, if the system has several.")
WORKAROUND = typer.Option(
    [],
    "--workaround",
    metavar="NAME",
    help="Set a named workaround too.",
    autocompletion=complete.workarounds,
)

RecipeName = Annotated[str, RECIPE]
SystemName = Annotated[str | None, SYSTEM]
ThisSystemName = Annotated[str | None, THIS_SYSTEM]
Uarch = Annotated[str | None, UARCH]
Workarounds = Annotated[tuple[str, ...], WORKAROUND]
SpackPath = Annotated[Path | None, Option(metavar="PATH", help="The Spack to use, before SPACK_ROOT and PATH.")]
Repos = Annotated[tuple[str, ...], Option(metavar="NAME=PATH", help="Take a package repository from disk.")]


def named_paths(pairs: Iterable[str], option: str) -> dict[str, Path]:
    """Return NAME=PATH words as a mapping. Raises BadInput if one is of another form."""
    found = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise BadInput(f"{option} {pair}: not NAME=PATH", hint=f"for example {option} builtin=~/spack-packages")
        found[name] = Path(path).expanduser()
    return found


def named_texts(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Return NAME=TEXT words as a mapping. Raises BadInput if one is of another form."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise BadInput(f"{option} {pair}: not NAME=VALUE", hint=f"for example {option} nccl=2.27.3")
        found[name] = text
    return found

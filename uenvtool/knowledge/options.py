"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.core.errors import BadInput
from uenvtool.knowledge import complete

RecipeName = Annotated[
    str, Argument(metavar="RECIPE", help="A recipe's name, or the path of its file.", autocompletion=complete.recipes)
]
SystemName = Annotated[
    str | None,
    Option(
        "--system",
        "-s",
        metavar="SYSTEM",
        help="The system; default: this one, else the recipe's home.",
        autocompletion=complete.systems,
    ),
]
ThisSystemName = Annotated[
    str | None,
    Option("--system", "-s", metavar="SYSTEM", help="The system; default: this one.", autocompletion=complete.systems),
]
Uarch = Annotated[str | None, Option("--uarch", metavar="UARCH", help="The node type, if the system has several.")]
Workarounds = Annotated[
    tuple[str, ...],
    Option("--workaround", metavar="NAME", help="Set a named workaround too.", autocompletion=complete.workarounds),
]
SpackPath = Annotated[
    Path | None, Option("--spack", metavar="PATH", help="The Spack to use, before SPACK_ROOT and PATH.")
]
Repos = Annotated[tuple[str, ...], Option("--repo", metavar="NAME=PATH", help="Take a package repository from disk.")]


def named_paths(pairs: Iterable[str]) -> dict[str, Path]:
    """Return the words of --repo as a mapping. Raises BadInput if one is not NAME=PATH."""
    texts = _named(pairs, "--repo", r"([^=]+)=(.+)", "NAME=PATH", "builtin=~/spack-packages")
    return {name: Path(path).expanduser() for name, path in texts.items()}


def named_texts(pairs: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Return NAME=TEXT words as a mapping. Raises BadInput, with the example, if one is of another form."""
    return _named(pairs, option, r"([^=]+)=(.*)", "NAME=VALUE", example)


def _named(pairs: Iterable[str], option: str, pattern: str, form: str, example: str) -> dict[str, str]:
    found = {}
    for pair in pairs:
        match = re.fullmatch(pattern, pair, re.DOTALL)
        if match is None:
            raise BadInput(f"{option} {pair}: not {form}", hint=f"for example {option} {example}")
        found[match[1]] = match[2]
    return found

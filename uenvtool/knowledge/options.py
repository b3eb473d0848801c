"""The options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.core.errors import BadInput
from uenvtool.knowledge import complete

RecipeName = Annotated[
    str,
    Argument(metavar="RECIPE", help="The name of a recipe, or the path of its file.", autocompletion=complete.recipes),
]
SystemName = Annotated[
    str | None,
    Option(
        "--system",
        "-s",
        metavar="SYSTEM",
        help="The system. Default: this machine's system, or else the recipe's home.",
        autocompletion=complete.systems,
    ),
]
ThisSystemName = Annotated[
    str | None,
    Option(
        "--system",
        "-s",
        metavar="SYSTEM",
        help="The system. Default: this machine's system.",
        autocompletion=complete.systems,
    ),
]
Uarch = Annotated[
    str | None, Option("--uarch", metavar="UARCH", help="The node type (uarch), if the system has several.")
]
Workarounds = Annotated[
    tuple[str, ...],
    Option(
        "--workaround",
        metavar="NAME",
        help="Also set the variables of this workaround.",
        autocompletion=complete.workarounds,
    ),
]
SpackPath = Annotated[
    Path | None, Option("--spack", metavar="PATH", help="The Spack to use instead of those in SPACK_ROOT and on PATH.")
]
Repos = Annotated[
    tuple[str, ...], Option("--repo", metavar="NAME=PATH", help="Use a local copy of a package repository.")
]


def named_paths(pairs: Iterable[str]) -> dict[str, Path]:
    """Return the values of --repo as a mapping. Raises BadInput if a value does not have the form NAME=PATH."""
    texts = _named(pairs, "--repo", r"([^=]+)=(.+)", "NAME=PATH", "builtin=~/spack-packages")
    return {name: Path(path).expanduser() for name, path in texts.items()}


def named_texts(pairs: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Return the values of an option as a mapping. Raises BadInput if a value does not have the form NAME=VALUE.

    example: A valid value, which the error shows.
    """
    return _named(pairs, option, r"([^=]+)=(.*)", "NAME=VALUE", example)


def _named(pairs: Iterable[str], option: str, pattern: str, form: str, example: str) -> dict[str, str]:
    named = {}
    for pair in pairs:
        match = re.fullmatch(pattern, pair, re.DOTALL)
        if match is None:
            raise BadInput(f"{option} {pair!r}: expected {form}", hint=f"write for example {option} {example}")
        named[match[1]] = match[2]
    return named

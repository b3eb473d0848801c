"""The options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from uenvtool.core.errors import BadInput
from uenvtool.knowledge import complete

RecipeName = Annotated[
    str,
    Argument(metavar="RECIPE", help="The name of a recipe, or the path of its file.", autocompletion=complete.recipes),
]


def _system_option(default: str) -> Any:
    help_ = f"The system. Default: {default}."
    return Option("--system", "-s", metavar="SYSTEM", help=help_, autocompletion=complete.systems)


SystemName = Annotated[str | None, _system_option("this machine's system, or else the recipe's home")]
ThisSystemName = Annotated[str | None, _system_option("this machine's system")]
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
    """Return the values of --repo by name. Raises BadInput if a value does not have the form NAME=PATH."""
    texts = named_texts(pairs, "--repo", "builtin=~/spack-packages", form="NAME=PATH")
    return {name: Path(path).expanduser() for name, path in texts.items()}


def named_texts(pairs: Iterable[str], option: str, example: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """Return an option's values by name. Raises BadInput with the example if a value does not have the form."""
    named = {}
    for pair in pairs:
        name, is_pair, value = pair.partition("=")
        if not (name and is_pair and (value or form == "NAME=VALUE")):
            raise BadInput(f"{option} {pair!r}: expected {form}", hint=f"write for example {option} {example}")
        named[name] = value
    return named

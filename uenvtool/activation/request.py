"""The arguments and options of `uenvtool activate` and `uenvtool explain`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import ThisSystemName, Uarch, Workarounds, named_texts


def _shells() -> list[str]:
    from uenvtool.activation.formats import FORMATS

    return sorted(FORMATS)


_runtime = functools.partial(Option, "--runtime", metavar="NAME", autocompletion=complete.runtimes)
_recipe = functools.partial(Option, "--recipe", metavar="RECIPE", autocompletion=complete.recipes)


@dataclass(frozen=True, kw_only=True)
class ActivateRequest:
    """The options of one `uenvtool activate` call."""

    system: ThisSystemName = None
    uarch: Uarch = None
    runtime: Annotated[
        str | None, _runtime(help="The runtime, such as uenv or ce. Default: detected when the script runs.")
    ] = None
    recipe: Annotated[str | None, _recipe(help="Use the versions of this recipe.")] = None
    nccl: Annotated[str | None, Option("--nccl", metavar="VERSION", help="The version of NCCL.")] = None
    fact: Annotated[
        tuple[str, ...], Option("--fact", metavar="NAME=VALUE", help="Set another fact, such as image=alps.")
    ] = ()
    shell: Annotated[
        str,
        Option(
            "--shell",
            metavar="NAME",
            help="The shell, bash or zsh, or a file format: edf, dotenv or json.",
            autocompletion=_shells,
        ),
    ] = "bash"
    venv: Annotated[str | None, Option("--venv", metavar="PATH", help="Also activate this virtual environment.")] = None
    workaround: Workarounds = ()
    check: Annotated[bool, Option("--check", help="Exit with 1 and a diff if activate/ is not up to date.")] = False
    write: Annotated[bool, Option("--write", help="Write the scripts in activate/, or that of --system.")] = False
    force: Annotated[bool, Option("--force", help="With --write, replace scripts that were changed by hand.")] = False
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="The directory for --check and --write.", show_default="activate"),
    ] = None

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts by name. Raises BadInput if a --fact is not NAME=VALUE."""
        facts = named_texts(self.fact, "--fact", "nccl=2.27.3")
        return facts if self.nccl is None else {**facts, "nccl": self.nccl}


@dataclass(frozen=True, kw_only=True)
class ExplainRequest:
    """The arguments and options of one `uenvtool explain` call."""

    names: Annotated[
        tuple[str, ...],
        Argument(
            metavar="[VAR|ID...]",
            help="Variables, rules of check, findings of doctor, or sources.",
            autocompletion=complete.explained,
        ),
    ] = ()
    all: Annotated[bool, Option("--all", help="Explain every variable.")] = False
    system: Annotated[
        str | None,
        Option(
            "--system", "-s", metavar="SYSTEM", help="Show the values on this system.", autocompletion=complete.systems
        ),
    ] = None
    runtime: Annotated[str | None, _runtime(help="Show the values in this runtime.")] = None
    recipe: Annotated[str | None, _recipe(help="Show the values for this recipe's versions.")] = None
    nccl: Annotated[
        str | None, Option("--nccl", metavar="VERSION", help="Show the values for this version of NCCL.")
    ] = None
    verbose: Annotated[
        bool,
        Option(
            "--verbose",
            "-v",
            help="Show everything that is known, not only the values for this system, runtime and versions.",
        ),
    ] = False

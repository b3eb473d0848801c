"""What a user asks of `activate` and `explain`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import ThisSystemName, Uarch, Workarounds, named_texts


def _shells() -> list[str]:
    from uenvtool.activation.formats import FORMATS
    from uenvtool.activation.shells import shells

    return sorted([*shells(), *FORMATS])


@dataclass(frozen=True, kw_only=True)
class ActivateRequest:
    """The system, runtime and facts to activate for, and in which shell or file."""

    system: ThisSystemName = None
    uarch: Uarch = None
    runtime: Annotated[
        str | None,
        Option(
            "--runtime",
            metavar="NAME",
            help="The runtime, such as uenv or ce; default: seen in the job.",
            autocompletion=complete.runtimes,
        ),
    ] = None
    recipe: Annotated[
        str | None,
        Option("--recipe", metavar="RECIPE", help="Take the versions of a recipe.", autocompletion=complete.recipes),
    ] = None
    nccl: Annotated[str | None, Option("--nccl", metavar="VERSION", help="The version of NCCL, if it is known.")] = None
    fact: Annotated[
        tuple[str, ...], Option("--fact", metavar="NAME=VALUE", help="Another fact, such as image=alps.")
    ] = ()
    shell: Annotated[
        str,
        Option(
            "--shell",
            metavar="NAME",
            help="bash, zsh; or a file: edf, dotenv, json.",
            autocompletion=_shells,
        ),
    ] = "bash"
    venv: Annotated[str | None, Option("--venv", metavar="PATH", help="A virtual environment to activate too.")] = None
    workaround: Workarounds = ()
    check: Annotated[bool, Option("--check", help="Exit 1 with a diff if activate/ is not up to date.")] = False
    write: Annotated[bool, Option("--write", help="Write activate/ anew, one script a system.")] = False
    force: Annotated[bool, Option("--force", help="With --write: replace scripts that were changed by hand.")] = False
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="For --check and --write.", show_default="activate")
    ] = None

    @property
    def facts(self) -> dict[str, str]:
        """Return the facts by name. Raises BadInput for a word that is not NAME=VALUE."""
        return {
            **named_texts(self.fact, "--fact", "nccl=2.27.3"),
            **({"nccl": self.nccl} if self.nccl is not None else {}),
        }


@dataclass(frozen=True, kw_only=True)
class ExplainRequest:
    """What to explain, and the place that it is explained for."""

    names: Annotated[
        tuple[str, ...],
        Argument(
            metavar="[VAR|ID...]",
            help="Variables, rules of check, findings of doctor, sources.",
            autocompletion=complete.explained,
        ),
    ] = ()
    all: Annotated[bool, Option("--all", help="Explain every variable.")] = False
    system: Annotated[
        str | None,
        Option("--system", "-s", metavar="SYSTEM", help="Say what is set there.", autocompletion=complete.systems),
    ] = None
    runtime: Annotated[
        str | None,
        Option("--runtime", metavar="NAME", help="Say what is set in this runtime.", autocompletion=complete.runtimes),
    ] = None
    recipe: Annotated[
        str | None,
        Option(
            "--recipe", metavar="RECIPE", help="Say what is set with its versions.", autocompletion=complete.recipes
        ),
    ] = None
    nccl: Annotated[str | None, Option("--nccl", metavar="VERSION", help="Say what is set with this NCCL.")] = None
    verbose: Annotated[
        bool,
        Option("--verbose", "-v", help="Say all that is known, not only what holds in the place that is asked for."),
    ] = False

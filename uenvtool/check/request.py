"""The arguments and options of `uenvtool check`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRequest:
    """The arguments and options of one `uenvtool check` call."""

    files: Annotated[
        tuple[Path, ...], Argument(metavar="FILE...", help="Batch scripts and EDFs; - for standard input.")
    ]
    system: Annotated[
        str | None, Option("--system", "-s", metavar="SYSTEM", help="The system on which the files will run.")
    ] = None
    select: Annotated[
        tuple[str, ...], Option("--select", metavar="RULE", help="Apply only this rule. Can be repeated.")
    ] = ()
    format: Annotated[
        Literal["concise", "github"] | None,
        Option("--format", help="Print one line per problem, or annotations for GitHub Actions."),
    ] = None
    all: Annotated[bool, Option("--all", help="Also print hints.")] = False
    fix: Annotated[
        bool, Option("--fix", help="Fix the problems that have a safe fix in place, and print the changes as a diff.")
    ] = False
    diff: Annotated[bool, Option("--diff", help="Print the changes that --fix would make; change no file.")] = False
    exit_zero: Annotated[bool, Option("--exit-zero", help="Exit with 0 even if problems are found.")] = False

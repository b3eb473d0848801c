"""What a user asks of `uenvtool check`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRequest:
    """What a user asks of `uenvtool check`."""

    files: Annotated[tuple[Path, ...], Argument(metavar="FILE...", help="Batch scripts and EDFs.")]
    system: Annotated[str | None, Option("--system", "-s", metavar="SYSTEM", help="The system that they are for.")] = (
        None
    )
    select: Annotated[tuple[str, ...], Option("--select", metavar="RULE", help="Only this rule; can be repeated.")] = ()
    all: Annotated[bool, Option("--all", help="Hints too.")] = False
    fix: Annotated[bool, Option("--fix", help="Mend in place what is safe to mend, and show the change.")] = False
    diff: Annotated[bool, Option("--diff", help="Show what --fix would change; change nothing.")] = False
    exit_zero: Annotated[bool, Option("--exit-zero", help="Exit 0 whatever is found.")] = False

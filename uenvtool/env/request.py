"""What a user asks of `uenvtool build` and `uenvtool edit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from uenvtool.knowledge.options import RecipeName, Repos, SpackPath, SystemName, Uarch, named_paths

SPACK = "spack"
STACKINATOR = {"stackinator": 2, "stackinator3": 3}
"""Forms of a Stackinator recipe to its version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """A request to build."""

    recipe: RecipeName
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Where to write; default: its own folder in envs/.")
    ] = None
    concretize: Annotated[
        bool | None,
        Option("--concretize/--no-concretize", help="Resolve with Spack; default: if Spack is found."),
    ] = None
    spack: SpackPath = None
    repo: Repos = ()
    check: Annotated[bool, Option("--check", help="Exit 1 with a diff if DIR is not what its inputs give.")] = False
    format: Annotated[Literal["spack", "stackinator", "stackinator3"], Option("--format", help="What to write.")] = (
        "spack"
    )
    force: Annotated[
        bool, Option("--force", help="Replace uenvtool's files that were changed; write beside other files.")
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be written; write nothing.")] = False
    verbose: Annotated[bool, Option("--verbose", help="List every root package: version, who set it, why.")] = False

    @property
    def repos(self) -> dict[str, Path]:
        """The package repositories to take from disk, by name. Raises BadInput for a word that names none."""
        return named_paths(self.repo)


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What a user wants changed."""

    add: Annotated[tuple[str, ...], Option("--add", metavar="SPEC", help="Add a package, or replace its spec.")] = ()
    remove: Annotated[tuple[str, ...], Option("--remove", metavar="PKG", help="Leave a package out.")] = ()
    pin: Annotated[tuple[str, ...], Option("--pin", metavar="PKG@VERSION", help="Accept this version alone.")] = ()
    reason: Annotated[str, Option("--reason", metavar="TEXT", help="Why, written beside the change.")] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest(Changes):
    """A request to change a recipe's file. spack, repo: for the command that builds it."""

    recipe: RecipeName
    spack: SpackPath = None
    repo: Repos = ()
    dry_run: Annotated[bool, Option("--dry-run", help="Show the change; write nothing.")] = False

"""The options of `uenvtool build` and `uenvtool edit`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from uenvtool.knowledge.options import RecipeName, Repos, SpackPath, SystemName, Uarch

SPACK = "spack"
STACKINATOR = {"stackinator": 2, "stackinator3": 3}
"""The version of the Stackinator recipe for each value of --format that writes one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """The options of `uenvtool build`."""

    recipe: RecipeName
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Write to DIR; default: a directory in envs/.")
    ] = None
    concretize: Annotated[
        bool | None,
        Option("--concretize/--no-concretize", help="Resolve with Spack; default: only if Spack is installed."),
    ] = None
    spack: SpackPath = None
    repo: Repos = ()
    check: Annotated[bool, Option("--check", help="Print a diff and exit with 1 if DIR is out of date.")] = False
    format: Annotated[
        Literal["spack", "stackinator", "stackinator3"],
        Option("--format", help="Write a Spack environment, or a Stackinator recipe of version 2 or 3."),
    ] = "spack"
    force: Annotated[
        bool, Option("--force", help="Replace edited files that uenvtool wrote, and write next to other files.")
    ] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Print the result without writing it.")] = False
    verbose: Annotated[
        bool, Option("--verbose", help="List each root package with its version, its origin and the reason.")
    ] = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidateRequest:
    """The options of `uenvtool validate`."""

    files: Annotated[
        tuple[Path, ...],
        Argument(metavar="FILE...", help="Recipes, systems and other files, or directories that contain them."),
    ]
    repo: Repos = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The changes to a recipe file."""

    add: Annotated[tuple[str, ...], Option("--add", metavar="SPEC", help="Add a package, or replace its spec.")] = ()
    remove: Annotated[tuple[str, ...], Option("--remove", metavar="PKG", help="Remove a package.")] = ()
    pin: Annotated[tuple[str, ...], Option("--pin", metavar="PKG@VERSION", help="Require exactly this version.")] = ()
    reason: Annotated[str, Option("--reason", metavar="TEXT", help="Write this reason next to the change.")] = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class EditRequest(Changes):
    """The options of `uenvtool edit`, which prints a build command with the same --spack and --repo options."""

    recipe: RecipeName
    spack: SpackPath = None
    repo: Repos = ()
    dry_run: Annotated[bool, Option("--dry-run", help="Print the diff without writing the file.")] = False

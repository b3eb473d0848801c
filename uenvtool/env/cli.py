"""The arguments of `build`, `edit` and `diff`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import typer

from uenvtool.knowledge.options import JSON, RECIPE, SYSTEM, UARCH


class Format(str, Enum):
    """What to write."""

    spack = "spack"
    stackinator = "stackinator"
    stackinator3 = "stackinator3"


def build(
    recipe: str = RECIPE,
    system: str | None = SYSTEM,
    uarch: str | None = UARCH,
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="DIR", help="Where to write; default: envs/RECIPE/SYSTEM-UARCH."
    ),
    concretize: bool | None = typer.Option(
        None, "--concretize/--no-concretize", help="Resolve with Spack; default: if Spack is found."
    ),
    spack: Path | None = typer.Option(
        None, "--spack", metavar="PATH", help="The Spack to use, before SPACK_ROOT and PATH."
    ),
    repo: list[str] = typer.Option([], "--repo", metavar="NAME=PATH", help="Take a package repository from disk."),
    check: bool = typer.Option(False, "--check", help="Exit 1 with a diff if DIR is not what its inputs give."),
    format_: Format = typer.Option(Format.spack, "--format", help="What to write."),
    force: bool = typer.Option(
        False, "--force", help="Replace uenvtool's files that were changed; write beside other files."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be written; write nothing."),
    sources: bool = typer.Option(False, "--sources", help="List what Spack will download for DIR, with sums."),
    mirror: Path | None = typer.Option(
        None, "--mirror", metavar="FOLDER", help="With --sources: download it all into a mirror."
    ),
    plan: bool = typer.Option(
        False, "--plan", help="Show what the image takes: order, critical path, cores, disk, downloads."
    ),
    verbose: bool = typer.Option(False, "--verbose", help="List every root package: version, who set it, why."),
    json_: bool = JSON,
) -> int:
    """Write the Spack environment of RECIPE for a system, and resolve it if Spack is here."""
    from uenvtool.core import console
    from uenvtool.env.build import build as build_environment
    from uenvtool.env.request import BuildRequest
    from uenvtool.knowledge.options import named_paths

    request = BuildRequest(
        recipe=recipe,
        system=system,
        uarch=uarch,
        output=output,
        form=format_.value,
        resolve=concretize,
        spack=spack,
        repos=named_paths(repo, "--repo"),
        check=check,
        dry_run=dry_run,
        force=force,
        sources=sources or mirror is not None,
        mirror=mirror,
        plan=plan,
        verbose=verbose,
    )
    return console.show(build_environment(request, console.progress), as_json=json_)


def edit(
    recipe: str = RECIPE,
    add: list[str] = typer.Option([], "--add", metavar="SPEC", help="Add a package, or replace its spec."),
    remove: list[str] = typer.Option([], "--remove", metavar="PKG", help="Leave a package out."),
    pin: list[str] = typer.Option([], "--pin", metavar="PKG@VERSION", help="Accept this version alone."),
    reason: str = typer.Option("", "--reason", metavar="TEXT", help="Why, written beside the change."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the change; write nothing."),
    json_: bool = JSON,
) -> int:
    """Change a recipe's packages in its file, and show the change."""
    from uenvtool.core import console
    from uenvtool.env.edit import edit as command
    from uenvtool.env.edit.changes import Changes

    changes = Changes(add=add, remove=remove, pin=pin, reason=reason)
    return console.show(command.edit(recipe, changes, dry_run=dry_run), as_json=json_)


def diff(
    before: str = typer.Argument(..., metavar="A", help="A recipe, environment folder, spack.lock or published table."),
    after: str = typer.Argument(..., metavar="B", help="What to compare it with; it can be of another kind."),
    json_: bool = JSON,
) -> int:
    """Compare the packages of A and B: added, removed, changed. Exit code 1 if they differ."""
    from uenvtool.core import console
    from uenvtool.env import diff as command

    return console.show(command.diff(before, after), as_json=json_)

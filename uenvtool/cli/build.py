"""`uenvtool build`: a recipe and a system become a Spack environment."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from uenvtool.cli.options import JSON, SYSTEM, UARCH

if TYPE_CHECKING:
    from uenvtool.commands.build import Built


class Format(str, Enum):
    """What to write."""

    spack = "spack"
    stackinator = "stackinator"
    stackinator3 = "stackinator3"


def build(
    recipe: str = typer.Argument(..., metavar="RECIPE", help="A recipe's name, or the path of its file."),
    system: str | None = SYSTEM,
    uarch: str | None = UARCH,
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="DIR", help="Where to write; default: envs/RECIPE/UARCH."
    ),
    concretize: bool | None = typer.Option(
        None, "--concretize/--no-concretize", help="Resolve with Spack; default: where Spack is found."
    ),
    spack: Path | None = typer.Option(
        None, "--spack", metavar="PATH", help="The Spack to use, before SPACK_ROOT and PATH."
    ),
    repo: list[str] = typer.Option([], "--repo", metavar="NAME=PATH", help="Take a package repository from disk."),
    check: bool = typer.Option(False, "--check", help="Exit 1 with a diff where DIR is not what its inputs give."),
    format_: Format = typer.Option(Format.spack, "--format", help="What to write."),
    force: bool = typer.Option(
        False, "--force", help="Replace uenvtool's files where they were changed; write beside other files."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be written; write nothing."),
    json_: bool = JSON,
) -> None:
    """Write the Spack environment of RECIPE for a system, and resolve it where Spack is here."""
    from uenvtool import console
    from uenvtool.cli.options import named_paths
    from uenvtool.knowledge import choose, load_recipe
    from uenvtool.spack.environment import plan_environment

    loaded = load_recipe(recipe)
    choice = choose(loaded, system, uarch)
    environment = plan_environment(loaded, choice.system, choice.uarch)
    where = f"{choice.system.name} ({choice.reason}), node type {choice.uarch}"
    console.note(f"{loaded.name} for {where}")
    if format_ is not Format.spack:
        from uenvtool.spack.stackinator import write_recipe

        folder = output or Path("stackinator") / loaded.name / choice.uarch
        version = 3 if format_ is Format.stackinator3 else 2
        written = write_recipe(environment, version, folder, check=check, force=force, dry_run=dry_run)
        if version == 3:
            console.warn("Stackinator 7 needs Spack 1.2; see that the recipe pins it (docs/stackinator.md)")
        console.result_json(written) if json_ else console.result("\n".join(written["files"]))
        return
    from uenvtool.commands import build as builder

    folder = output or Path("envs") / loaded.name / choice.uarch
    if dry_run:
        from uenvtool.spack.manifest import render_manifest

        console.result(render_manifest(environment))
        return
    if check:
        builder.check(environment, folder)
        console.note(f"{folder} is what its inputs give")
        return
    options = builder.Options(concretize, spack, named_paths(repo, "--repo"), force)
    _show(builder.build(environment, folder, options, console.progress), json_)


def _show(built: Built, as_json: bool) -> None:
    """Print what was built: the result on stdout, warnings and the next command on stderr."""
    from uenvtool import console

    if as_json:
        console.result_json(built.data())
    else:
        headings = ("package", "version", "set in", "why")
        console.result(console.table(headings, built.rows()))
    for line in built.warnings():
        console.warn(line)
    console.note(f"wrote {built.folder}/spack.yaml; {built.state}")
    console.note("next:\n  " + built.next_command.replace("\n", "\n  "))

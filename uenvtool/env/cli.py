"""The arguments of `build`, `edit` and `validate`."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.core.options import JSON, command
from uenvtool.core.result import Result
from uenvtool.env.request import BuildRequest, EditRequest


@command(BuildRequest)
def build(request: BuildRequest) -> Result:
    """Write the Spack environment of RECIPE for a system, and resolve it if Spack is here."""
    from uenvtool.core import console
    from uenvtool.env import build as work

    return work.build(request, console.progress)


@command(EditRequest)
def edit(request: EditRequest) -> Result:
    """Change a recipe's packages in its file, and show the change."""
    from uenvtool.env.edit import edit as work

    return work.edit(request)


def validate(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="Recipe, system, tuning or published files, or a recipe's folder."
    ),
    spack: Path | None = typer.Option(None, "--spack", metavar="PATH", help="With --repo: the Spack that reads it."),
    repo: list[str] = typer.Option(
        [], "--repo", metavar="NAME=PATH", help="Look for a recipe's packages, versions and variants there; repeatable."
    ),
    json_: bool = JSON,
) -> int:
    """Check files: schema, spec syntax, names, versions that must go together."""
    from uenvtool.core import console
    from uenvtool.env import look_up as work

    return console.show(work.validate(files, work.at_hand(spack, repo)), as_json=json_)

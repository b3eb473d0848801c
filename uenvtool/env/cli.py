"""The commands `build`, `edit` and `validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uenvtool.core.options import Commands, Json, command
from uenvtool.core.result import Result
from uenvtool.env.request import BuildRequest, EditRequest

app = Commands()


@app.command()
@command(BuildRequest)
def build(request: BuildRequest) -> Result:
    """Write the Spack environment of RECIPE for a system, and resolve it if Spack is installed."""
    from uenvtool.core import console
    from uenvtool.env import build as work

    return work.build(request, console.progress)


@app.command()
@command(EditRequest)
def edit(request: EditRequest) -> Result:
    """Add, remove or pin packages in a recipe file, and print the diff."""
    from uenvtool.env import edit as work

    return work.edit(request)


@app.command()
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Recipes, systems and other files, or directories that contain them."),
    ],
    json_: Json = False,
) -> int:
    """Check files: schema, spec syntax, names, and versions that must match."""
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue as work

    return console.show(work.validate(files), as_json=json_)

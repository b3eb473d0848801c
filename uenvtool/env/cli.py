"""The commands `build`, `edit` and `validate`."""

from __future__ import annotations

from uenvtool.core.options import Commands, command
from uenvtool.core.result import Result
from uenvtool.env.request import BuildRequest, EditRequest, ValidateRequest

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
@command(ValidateRequest)
def validate(request: ValidateRequest) -> Result:
    """Check the schema, specs, names and coupled versions in files. With --repo, also check that the versions exist."""
    from uenvtool.env import known_versions as work

    return work.validate(request)

"""The command `container`."""

from __future__ import annotations

import typer

from uenvtool.container.request import ContainerRequest
from uenvtool.core.options import command
from uenvtool.core.result import Result

app = typer.Typer()


@app.command()
@command(ContainerRequest)
def container(request: ContainerRequest) -> Result:
    """Write the Containerfile, EDF, build and test scripts and pipeline of an image into DIR.

    `uenvtool container ngc-pytorch-26.02-alps6` takes a recipe.

    `uenvtool container --from IMAGE:TAG --pip metatrain` adds packages to an image.
    """
    from uenvtool.container.image import make

    return make(request)

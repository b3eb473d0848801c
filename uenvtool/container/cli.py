"""The command `container`."""

from __future__ import annotations

from uenvtool.container.request import ContainerRequest
from uenvtool.core.options import Commands, command
from uenvtool.core.result import Result

app = Commands()


@app.command()
@command(ContainerRequest)
def container(request: ContainerRequest) -> Result:
    """Write a Containerfile, with an EDF, scripts and a pipeline that build, test and run the image.

    `uenvtool container ngc-pytorch-26.02-alps6` writes the files of a recipe.

    `uenvtool container --from IMAGE:TAG --pip metatrain` adds Python packages to an image.
    """
    from uenvtool.container.image import make

    return make(request)

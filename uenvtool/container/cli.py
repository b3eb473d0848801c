"""The arguments of `container`."""

from __future__ import annotations

from uenvtool.container.request import ContainerRequest, TagRequest
from uenvtool.core.options import command, with_verbs
from uenvtool.core.result import Result


@command(ContainerRequest)
def container(request: ContainerRequest) -> Result:
    """Write the Containerfile, EDF, build and test scripts and pipeline of an image into DIR.

    `uenvtool container ngc-pytorch-26.02-alps6` takes a recipe.

    `uenvtool container --from IMAGE:TAG --pip metatrain` adds packages to an image.

    `uenvtool container tag RECIPE` prints the image's name, with the hash of all that goes in.
    """
    from uenvtool.container.image import make

    return make(request)


@command(TagRequest)
def tag(request: TagRequest) -> Result:
    """Print the canonical name of an image: its name, its tag, and the hash of everything that goes in."""
    from uenvtool.container import image

    return image.tag(request)


CLASS = with_verbs({"tag": tag})

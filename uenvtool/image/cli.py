"""The group `image`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uenvtool.core.options import Commands, Json, command
from uenvtool.core.result import Result
from uenvtool.image.request import ImageRequest

Images = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Images: squashfs files.")]

app = Commands()
image = Commands(help="Build, show and verify images (uenvs and packed overlays), and list their packages.")
app.add_typer(image, name="image")


@image.command()
@command(ImageRequest)
def build(request: ImageRequest) -> Result:
    """Build an image: install environments with Spack at their mount point, and pack them with their metadata."""
    from uenvtool.core import console
    from uenvtool.image.build import build_image
    from uenvtool.image.check import check_needs

    if request.check:
        return check_needs(request, console.progress)
    return build_image(request, console.progress)


@image.command()
def show(images: Images, json_: Json = False) -> int:
    """Show an image's views, variables and packages, with the size of each package."""
    from uenvtool.core import console
    from uenvtool.image.contents import show as work

    return console.show(work(images), as_json=json_)


@image.command()
def verify(
    images: Images,
    build_folder: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="A directory that no file may refer to; repeatable.")
    ] = None,
    json_: Json = False,
) -> int:
    """Check an image's view paths, libraries, and references to build directories. Exit with 1 if any is wrong."""
    from uenvtool.core import console
    from uenvtool.image.verify import verify as work

    return console.show(work(images, build_folder or []), as_json=json_)


@image.command()
def sbom(
    files: Annotated[list[Path], typer.Argument(metavar="FILE|LOCK...", help="An image, or a spack.lock.")],
    has: Annotated[
        str, typer.Option(metavar="SPEC", help="List the files that contain a package, for example openssl@:3.5.0.")
    ] = "",
    json_: Json = False,
) -> int:
    """Print a CycloneDX bill of materials of an image or a lock, with known CVE ids."""
    from uenvtool.core import console
    from uenvtool.core.errors import BadInput
    from uenvtool.image import sbom as work

    if has:
        return console.show(work.holders(has, files), as_json=json_)
    if len(files) > 1:
        raise BadInput("several files need --has", hint="run the command once per file, or pass --has SPEC")
    return console.show(work.sbom(files[0]), as_json=json_)

"""The group `image`, and the command `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uenvtool.core.options import Json, command
from uenvtool.core.result import Result
from uenvtool.image.request import ImageRequest

Images = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Images: squashfs files.")]

app = typer.Typer()
image = typer.Typer(help="Build, show and verify images, and list their packages: packed overlays, and any uenv.")
app.add_typer(image, name="image")


@image.command()
@command(ImageRequest)
def build(request: ImageRequest) -> Result:
    """Build the image of an environment: install it with Spack at its mount point, describe it, pack it."""
    from uenvtool.core import console
    from uenvtool.image.build import build_image
    from uenvtool.image.check import check_needs

    if request.check:
        return check_needs(request, console.progress)
    return build_image(request, console.progress)


@image.command()
def show(images: Images, json_: Json = False) -> int:
    """Show an image's views, packages, variables, and its size by package."""
    from uenvtool.core import console
    from uenvtool.image.show import show as work

    return console.show(work(images), as_json=json_)


@image.command()
def verify(
    images: Images,
    build_folder: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="A folder that no file may name; repeatable.")
    ] = None,
    json_: Json = False,
) -> int:
    """Check an image: paths of views, names of build folders, libraries; exit code 1 if anything is wrong."""
    from uenvtool.core import console
    from uenvtool.image.verify import verify as work

    return console.show(work(images, build_folder or []), as_json=json_)


@image.command()
def sbom(path: Annotated[Path, typer.Argument(metavar="FILE|LOCK", help="An image, or a spack.lock.")]) -> int:
    """Print the packages of an image or a lock as a CycloneDX bill of materials, with known CVE ids."""
    from uenvtool.core import console
    from uenvtool.image.sbom import sbom as work

    return console.show(work(path))


@app.command()
def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="A recipe, environment, spack.lock, image or published table.")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="What to compare it with; it can be of another kind.")],
    json_: Json = False,
) -> int:
    """Compare the packages of A and B: added, removed, changed. Exit code 1 if they differ."""
    from uenvtool.core import console
    from uenvtool.image.diff import diff as work

    return console.show(work(before, after), as_json=json_)

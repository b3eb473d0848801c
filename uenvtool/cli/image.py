"""`uenvtool image`: what images are made of, checked, compared, and as a bill of materials."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.cli.options import JSON

image = typer.Typer(
    help="Show, verify, compare and list the packages of images: packed overlays, and any uenv.",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
IMAGES = typer.Argument(..., metavar="FILE...", help="Images: squashfs files.")


@image.command()
def show(images: list[Path] = IMAGES, json_: bool = JSON) -> int:
    """Show an image's views, packages, variables, and its size by package."""
    from uenvtool import console
    from uenvtool.commands.image.show import show as command

    return console.show(command(images), as_json=json_)


@image.command()
def verify(
    images: list[Path] = IMAGES,
    build_folder: list[str] = typer.Option([], metavar="DIR", help="A folder that no file may name; repeatable."),
    json_: bool = JSON,
) -> int:
    """Check an image: paths of views, names of build folders, libraries; exit code 1 if anything is wrong."""
    from uenvtool import console
    from uenvtool.commands.image.verify import verify as command

    return console.show(command(images, build_folder), as_json=json_)


@image.command()
def diff(
    before: Path = typer.Argument(..., metavar="A", help="An image."),
    after: Path = typer.Argument(..., metavar="B", help="An image."),
    json_: bool = JSON,
) -> int:
    """Show what two images do not share: packages, versions, variables, sizes; exit code 1 if anything."""
    from uenvtool import console
    from uenvtool.commands.image.diff import diff as command

    return console.show(command(before, after), as_json=json_)


@image.command()
def sbom(path: Path = typer.Argument(..., metavar="FILE", help="An image.")) -> int:
    """Print an image's packages as a CycloneDX bill of materials, for scanners and audits."""
    from uenvtool import console
    from uenvtool.commands.image.sbom import sbom as command

    return console.show(command(path))

"""`uenvtool image`: images are built, shown, checked and compared."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import typer

from uenvtool.knowledge.options import JSON, SYSTEM, UARCH

image = typer.Typer(
    help="Build, show, verify and compare images, and list their packages: packed overlays, and any uenv.",
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Tag(str, Enum):
    """What an image is named after besides its recipe."""

    hash = "hash"


IMAGES = typer.Argument(..., metavar="FILE...", help="Images: squashfs files.")


@image.command()
def build(
    source: str = typer.Argument(..., metavar="RECIPE|DIR", help="A recipe, or the folder of a resolved environment."),
    system: str | None = SYSTEM,
    uarch: str | None = UARCH,
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="The image; default: NAME.squashfs."
    ),
    store: Path | None = typer.Option(
        None, metavar="DIR", help="Install into DIR, which later runs go on with; default: one in the cache folder."
    ),
    spack: Path | None = typer.Option(
        None, "--spack", metavar="PATH", help="The Spack to use, before SPACK_ROOT and PATH."
    ),
    repo: list[str] = typer.Option([], "--repo", metavar="NAME=PATH", help="Take a package repository from disk."),
    jobs: int | None = typer.Option(None, "--jobs", "-j", min=1, help="Processes of one package's build."),
    mirror: list[str] = typer.Option([], "--mirror", metavar="URL", help="Take sources from a mirror; repeatable."),
    cache: list[str] = typer.Option([], "--cache", metavar="URL", help="Take packages from a build cache; repeatable."),
    unsigned: bool = typer.Option(
        False, "--unsigned", help="Take packages from a cache, and push them, without signatures."
    ),
    push: str = typer.Option("", metavar="URL", help="Put the packages into a build cache, for later runs and others."),
    tag: Tag | None = typer.Option(
        None, help="hash: name the image NAME-HASH after its inputs; one that is there is not built again."
    ),
    images: list[str] = typer.Option(
        [],
        "--images",
        metavar="PLACE",
        help="With --tag hash: take the image from a folder or oci://REGISTRY/PATH that has it; repeatable.",
    ),
    push_image: list[str] = typer.Option(
        [], "--push-image", metavar="PLACE", help="With --tag hash: put the image into such a place; repeatable."
    ),
    install_only: bool = typer.Option(
        False, "--install-only", help="Stop before packing; any number may run at once on one --store."
    ),
    slurm: bool = typer.Option(False, "--slurm", help="Build in a Slurm job; the answer is its number."),
    nodes: int = typer.Option(1, "--nodes", "-N", min=1, help="With --slurm: nodes that share the work."),
    partition: str = typer.Option("", "--partition", "-p", metavar="NAME", help="With --slurm: the partition."),
    account: str = typer.Option("", "--account", "-A", metavar="NAME", help="With --slurm: your project."),
    time: str = typer.Option("", "--time", "-t", metavar="TIME", help="With --slurm: the time limit."),
    wait: bool = typer.Option(False, "--wait", help="With --slurm: come back when the job has ended."),
    json_: bool = JSON,
) -> int:
    """Build the image of an environment: install it with Spack at its mount point, describe it, pack it."""
    from uenvtool.core import console
    from uenvtool.image.build import build_image
    from uenvtool.image.request import ImageRequest
    from uenvtool.image.slurm import SlurmOptions, build_on_slurm
    from uenvtool.knowledge.options import named_paths

    request = ImageRequest(
        source=source, system=system, uarch=uarch, output=output, store=store, spack=spack,
        repos=named_paths(repo, "--repo"), jobs=jobs, mirrors=tuple(mirror), caches=tuple(cache), unsigned=unsigned,
        push=push, tag_by_inputs=tag is Tag.hash, images=tuple(images), push_images=tuple(push_image),
        install_only=install_only,
    )  # fmt: skip
    if slurm:
        options = SlurmOptions(nodes=nodes, partition=partition, account=account, time=time, wait=wait)
        return console.show(build_on_slurm(request, options, console.progress), as_json=json_)
    return console.show(build_image(request, console.progress), as_json=json_)


@image.command()
def status(
    store: Path = typer.Argument(..., metavar="DIR", help="The store that an image is built in."), json_: bool = JSON
) -> int:
    """Show how far an image is: packages that are there, begun, failed and left; exit code 1 if one failed."""
    from uenvtool.core import console
    from uenvtool.image.status import status as command

    return console.show(command(store), as_json=json_)


@image.command()
def show(images: list[Path] = IMAGES, json_: bool = JSON) -> int:
    """Show an image's views, packages, variables, and its size by package."""
    from uenvtool.core import console
    from uenvtool.image.show import show as command

    return console.show(command(images), as_json=json_)


@image.command()
def verify(
    images: list[Path] = IMAGES,
    build_folder: list[str] = typer.Option([], metavar="DIR", help="A folder that no file may name; repeatable."),
    json_: bool = JSON,
) -> int:
    """Check an image: paths of views, names of build folders, libraries; exit code 1 if anything is wrong."""
    from uenvtool.core import console
    from uenvtool.image.verify import verify as command

    return console.show(command(images, build_folder), as_json=json_)


@image.command()
def diff(
    before: Path = typer.Argument(..., metavar="A", help="An image."),
    after: Path = typer.Argument(..., metavar="B", help="An image."),
    files: bool = typer.Option(False, "--files", help="Compare every file too, which reads both images whole."),
    json_: bool = JSON,
) -> int:
    """Show what two images do not share: packages, versions, variables, sizes; exit code 1 if anything."""
    from uenvtool.core import console
    from uenvtool.image.diff import diff as command

    return console.show(command(before, after, files=files), as_json=json_)


@image.command()
def sbom(path: Path = typer.Argument(..., metavar="FILE|LOCK", help="An image, or a spack.lock.")) -> int:
    """Print the packages of an image or a lock as a CycloneDX bill of materials, with known CVE ids."""
    from uenvtool.core import console
    from uenvtool.image.sbom import sbom as command

    return console.show(command(path))


@image.command("mark-tested")
def mark_tested(
    path: Path = typer.Argument(..., metavar="FILE", help="An image."),
    push_image: list[str] = typer.Option(
        [],
        "--push-image",
        metavar="PLACE",
        help="Put the image and its mark into a folder or oci://REGISTRY/PATH too; repeatable.",
    ),
    json_: bool = JSON,
) -> int:
    """Write FILE.tested beside an image that was tested; `image verify` holds it against the image."""
    from uenvtool.core import console
    from uenvtool.image.tested import mark_tested as command

    return console.show(command(path, push_image, console.progress), as_json=json_)

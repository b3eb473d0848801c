"""`uenvtool container`: the files of an image, built from a recipe, and the image's name."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.core.verbs import with_verbs
from uenvtool.knowledge import complete
from uenvtool.knowledge.options import JSON, SYSTEM, UARCH


def container(
    recipe: str | None = typer.Argument(
        None,
        metavar="RECIPE",
        help="A container recipe's name, or the path of its file.",
        autocompletion=complete.containers,
    ),
    base: str = typer.Option("", "--from", metavar="IMAGE", help="In place of a recipe: an image with its tag."),
    pip: list[str] = typer.Option([], "--pip", metavar="PACKAGE", help="With --from: a Python package on top of it."),
    name: str = typer.Option("", "--name", metavar="NAME", help="With --from: the name of the new image."),
    system: str | None = SYSTEM,
    uarch: str | None = UARCH,
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="DIR", help="Where to write; default: containers/RECIPE."
    ),
    locked: bool = typer.Option(False, "--locked", help="Refuse a base or source without a checksum."),
    check: bool = typer.Option(False, "--check", help="Exit 1 with a diff if DIR is not what its inputs give."),
    force: bool = typer.Option(False, "--force", help="Replace uenvtool's files that were changed."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the Containerfile; write nothing."),
    json_: bool = JSON,
) -> int:
    """Write the Containerfile, EDF, build and test scripts and pipelines of an image into DIR.

    Of a recipe: uenvtool container ngc-pytorch-26.02-alps6

    Or of packages on an image: uenvtool container --from nvcr.io/nvidia/pytorch:25.06-py3 --pip metatrain

    Also: `uenvtool container tag RECIPE` prints the image's name, with the hash of all that goes in.
    """
    from uenvtool.container.make import make
    from uenvtool.container.request import ContainerRequest
    from uenvtool.core import console

    request = ContainerRequest(
        recipe=recipe, base=base, pip=tuple(pip), name=name, system=system, uarch=uarch, output=output, check=check,
        dry_run=dry_run, locked=locked, force=force,
    )  # fmt: skip
    return console.show(make(request), as_json=json_)


def tag(
    recipe: str = typer.Argument(
        ...,
        metavar="RECIPE",
        help="A container recipe's name, or the path of its file.",
        autocompletion=complete.containers,
    ),
    system: str | None = SYSTEM,
    uarch: str | None = UARCH,
    json_: bool = JSON,
) -> int:
    """Print the canonical name of an image: its name, its tag, and the hash of everything that goes in."""
    from uenvtool.container.make import tag as command
    from uenvtool.container.request import ContainerRequest
    from uenvtool.core import console

    return console.show(command(ContainerRequest(recipe=recipe, system=system, uarch=uarch)), as_json=json_)


CLASS = with_verbs({"tag": tag})

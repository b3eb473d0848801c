"""What a user asks of `uenvtool container`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import SystemName, Uarch

Recipe = Argument(
    metavar="RECIPE", help="A container recipe's name, or the path of its file.", autocompletion=complete.containers
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerRequest:
    """A request for the files of an image: of a recipe, or of Python packages on an image of somebody else's."""

    recipe: Annotated[str | None, Recipe] = None
    base: Annotated[str, Option("--from", metavar="IMAGE", help="In place of a recipe: an image with its tag.")] = ""
    pip: Annotated[
        tuple[str, ...], Option("--pip", metavar="PACKAGE", help="With --from: a Python package on top of it.")
    ] = ()
    index: Annotated[
        tuple[str, ...],
        Option("--index", metavar="URL", help="With --from: an index of packages beside PyPI, for --pip."),
    ] = ()
    name: Annotated[str, Option("--name", metavar="NAME", help="With --from: the name of the new image.")] = ""
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Where to write; default: containers/RECIPE.")
    ] = None
    locked: Annotated[bool, Option("--locked", help="Refuse a base or source without a checksum.")] = False
    check: Annotated[bool, Option("--check", help="Exit 1 with a diff if DIR is not what its inputs give.")] = False
    force: Annotated[bool, Option("--force", help="Replace uenvtool's files that were changed.")] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Print the Containerfile; write nothing.")] = False
    tag: Annotated[
        bool, Option("--tag", help="Print the image's name, with the hash of all that goes in; write nothing.")
    ] = False

"""The options of `uenvtool container`."""

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
    """The options of `uenvtool container`: a recipe, or an existing image and the Python packages to add."""

    recipe: Annotated[str | None, Recipe] = None
    base: Annotated[
        str, Option("--from", metavar="IMAGE:TAG", help="Add packages to this image instead of using a recipe.")
    ] = ""
    pip: Annotated[
        tuple[str, ...], Option("--pip", metavar="PACKAGE", help="With --from: add a Python package; repeatable.")
    ] = ()
    index: Annotated[
        tuple[str, ...],
        Option("--index", metavar="URL", help="With --from: search this package index in addition to PyPI."),
    ] = ()
    name: Annotated[str, Option("--name", metavar="NAME", help="With --from: name the new image NAME.")] = ""
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Write to DIR; default: containers/RECIPE.")
    ] = None
    locked: Annotated[bool, Option("--locked", help="Fail if a base or source has no checksum.")] = False
    check: Annotated[bool, Option("--check", help="Print a diff and exit with 1 if DIR is out of date.")] = False
    force: Annotated[bool, Option("--force", help="Replace edited files that uenvtool wrote.")] = False
    dry_run: Annotated[bool, Option("--dry-run", help="Print the Containerfile without writing files.")] = False
    tag: Annotated[
        bool, Option("--tag", help="Print the image name and tag, with the content hash, without writing files.")
    ] = False

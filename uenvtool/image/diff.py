"""Compares the packages of two recipes, environments, locks, images or published tables."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result
from uenvtool.core.words import grouped
from uenvtool.env.diff import Contents, compared, contents
from uenvtool.image.contents import PYTHON, read
from uenvtool.image.read import superblock


def diff(before: str, after: str) -> Result:
    """Return the packages that two sides do not share; the answer is no if there are any.

    Raises BadInput if a side is none of what has packages, ToolMissing without unsquashfs for an image.
    """
    return compared(before, _contents(before), after, _contents(after))


def _contents(name: str) -> Contents:
    path = Path(name)
    return _of_image(path) if os.path.isfile(path) and superblock(path) is not None else contents(name)


def _of_image(path: Path) -> Contents:
    """Return Spack's packages, those of the system too; Python's where there are none, as in an overlay.

    What a package of Spack's brings along inside of it, as flit-core does tomli, no lock names.
    """
    image = read(path)
    found = {(install.name, install.version) for install in image.installs.values()} or {
        (package.name, package.version) for package in image.packages if package.kind == PYTHON
    }
    if not found:
        raise BadInput(f"{path} has no packages on record", hint="name an image with an environment in it")
    return Contents(grouped(sorted(found)), complete=True)

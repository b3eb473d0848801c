"""Finds compiled modules that were built for numpy 1 and would meet numpy 2.

numpy's headers compile the name of the module that holds its C API into every extension:
`numpy.core._multiarray_umath` with numpy 1, `numpy._core._multiarray_umath` with numpy 2, which
keeps the old name beside it to run on numpy 1 too (numpy/core/code_generators/generate_numpy_api.py
and numpy/_core/...). An extension with the old name alone fails on numpy 2.
"""

from __future__ import annotations

import csv
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from uenvtool.core.errors import BadInput, Problem
from uenvtool.core.files import read_bytes
from uenvtool.venv.base import Distribution

MAX_BYTES = 50_000_000
_SHARED = re.compile(r"\.so(\.\d+)*$")
OLD, NEW = b"numpy.core._multiarray_umath", b"numpy._core._multiarray_umath"


class Packages(Protocol):
    """What a base has, as far as compiled packages go: distributions by normalized name."""

    @property
    def packages(self) -> Mapping[str, Distribution]:
        """The distributions."""
        ...


def numpy_problems(base: Packages, new: Mapping[str, Distribution]) -> list[Problem]:
    """What was built for numpy 1 beside numpy 2: of the new packages, and of the base if numpy is new."""
    numpy = new.get("numpy") or base.packages.get("numpy")
    if numpy is None or _major(numpy.version) < 2:
        return []
    checked = [package for name, package in new.items() if name != "numpy"]
    before = base.packages.get("numpy")
    if "numpy" in new and before is not None and _major(before.version) < 2:
        checked += [package for name, package in base.packages.items() if name not in new]
    where = "the overlay gets" if "numpy" in new else "the base has"
    return [
        Problem(
            f"{package.name} {package.version} is built for numpy 1 ({os.path.basename(file)}); "
            f"{where} numpy {numpy.version}",
            hint=f"ask for a newer {package.name}"
            + (", or for numpy<2" if "numpy" in new else ", or put numpy 1 over the base's: 'numpy<2'"),
        )
        for package in checked
        for file in _first(built_for_numpy_1(package))
    ]


def built_for_numpy_1(distribution: Distribution) -> Iterator[str]:
    """The compiled modules of a distribution that know only numpy 1's C API."""
    for path in compiled_modules(distribution):
        try:
            with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                if data.find(OLD) >= 0 and data.find(NEW) < 0:
                    yield path
        except (OSError, ValueError):
            continue  # gone, empty, or not readable: Python could not load it either


def compiled_modules(distribution: Distribution) -> Iterator[str]:
    """The shared libraries that a distribution's RECORD lists and that lie below its folder."""
    root = os.path.realpath(distribution.folder)
    for name in recorded_files(distribution):
        path = os.path.realpath(os.path.join(root, name))
        if _SHARED.search(name) and path.startswith(root + os.sep):
            yield path


def recorded_files(distribution: Distribution) -> Iterator[str]:
    """The files that a distribution's RECORD lists, as it writes them: relative to its folder, or not."""
    if not distribution.metadata:
        return
    try:
        text = read_bytes(Path(distribution.metadata, "RECORD"), MAX_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, BadInput):
        return
    for row in csv.reader(text.splitlines()):
        if row:
            yield row[0]


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdigit() else 0


def _first(items: Iterable[str]) -> Iterator[str]:
    for item in items:
        yield item
        return

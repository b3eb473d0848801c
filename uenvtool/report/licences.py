"""Finds out under which licence packages are, from what describes them; nothing of it is run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from email.parser import HeaderParser
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.files import read_bytes
from uenvtool.image.contents import PYTHON, Package
from uenvtool.knowledge.version import Version, versions

LARGEST = 1 << 20
_LICENCE = re.compile(r"^    license\(\s*[\"']([^\"'\n]{1,200})[\"']([^()]{0,300})\)", re.MULTILINE)
_WHEN = re.compile(r"when=[\"']@([^\"'\s+~%^]*)")
_COPY = re.compile(r"(?P<folder>.+)/\.spack/repos/.*/(?P<module>[^/]+)/package\.py")


def in_image(packages: Iterable[Package], names: Iterable[str]) -> dict[str, str]:
    """Return the folder of a package to the file of an image that says its licence, of those that have one.

    Spack keeps the package.py of a package and of all that it needs in the package's own folder.
    """
    modules = {package.folder: module(package.name) for package in packages}
    found = {package.folder: f"{package.folder}/METADATA" for package in packages if package.kind == PYTHON}
    for copy in filter(None, map(_COPY.fullmatch, names)):
        if modules.get(copy["folder"]) == copy["module"]:
            found[copy["folder"]] = copy[0]
    return found


def in_repositories(packages: Iterable[Package], folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield folder and licence of the packages that package repositories have, the first one first."""
    searched = list(folders)
    for package in packages:
        for folder in searched:
            with contextlib.suppress(OSError, BadInput):
                text = read_bytes(folder / "packages" / module(package.name) / "package.py", LARGEST)
                if found := licence_of(package, text.decode(errors="replace")):
                    yield package.folder, found
                    break


def module(name: str) -> str:
    """Return the folder of a package in a repository (Spack v1.1.0, spack/util/naming.py, pkg_name_to_pkg_dir)."""
    plain = name.replace("-", "_")
    return f"_{plain}" if plain[0].isdigit() else plain


def licence_of(package: Package, text: str) -> str:
    """Return the licence that a package.py or a METADATA says of a package, "" if it says none."""
    if package.kind == PYTHON:
        head = HeaderParser().parsestr(text)
        classified = re.findall(r"(?m)^Classifier: License :: (?:OSI Approved :: )?(.+)$", text)
        words = (head.get("License") or "").strip()
        return head.get("License-Expression") or (words if "\n" not in words[:80] else "")[:80] or "; ".join(classified)
    return "; ".join(dict.fromkeys(name for name, when in _LICENCE.findall(text) if _holds(when, package.version)))


def _holds(when: str, version: str) -> bool:
    """Tell if a licence is that of a version; one under another condition is named too."""
    condition = _WHEN.search(when)
    try:
        return condition is None or versions(condition[1]).contains(Version(version))
    except (BadInput, ValueError):
        return True

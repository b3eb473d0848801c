"""Reads a virtual environment made by another tool (venv, virtualenv, uv): its Python, programs and packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.files import read_bytes
from uenvtool.core.words import canonical
from uenvtool.image.listing import by_name, listing
from uenvtool.image.read import read_texts, require_image
from uenvtool.venv.discovery import MAX_CONFIG, RECORD_FOLDER
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import RECORD_IN_IMAGE

_PROGRAM = re.compile(r"bin/([^/]+)")
_PACKAGE = re.compile(r"lib/python3[^/]*/site-packages/([^/]+?)-[^/-]+\.dist-info")


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherVenv:
    """The settings in a foreign virtual environment's pyvenv.cfg (PEP 405), and its programs and packages.

    home: the directory of the Python that it was made with. python: the path of that Python. sees_base: whether it also
    sees the packages of that Python. programs: the names in bin/. packages: the normalized names.
    """

    home: str
    python: str
    sees_base: bool
    programs: frozenset[str]
    packages: frozenset[str]


def other_venv(path: Path) -> OtherVenv | None:
    """Return a packed or unpacked virtual environment made by another tool.

    Return None if the path is an overlay or not a virtual environment. Raises BadInput if a file is not an image, and
    ToolMissing if the programs that read images are not installed.
    """
    if path.is_dir():
        if (path / RECORD_FOLDER).is_dir() or not (path / CONFIG).is_file():
            return None
        text = read_bytes(path / CONFIG, MAX_CONFIG).decode("utf-8", "replace")
        paths = (*path.glob("bin/*"), *path.glob("lib/python3*/site-packages/*.dist-info"))
        return _read(text, (os.fspath(name.relative_to(path)) for name in paths))
    require_image(path)
    entries = by_name(listing(path, [CONFIG, "bin", "lib", RECORD_IN_IMAGE]))
    text = "" if RECORD_IN_IMAGE in entries else read_texts(path, [CONFIG], known=entries).get(CONFIG, "")
    return _read(text, entries) if text else None


def _read(text: str, names: Iterable[str]) -> OtherVenv:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    settings = {name.strip().lower(): value.strip() for name, _, value in pairs}
    home = settings.get("home", "")
    minor = ".".join((settings.get("version") or settings.get("version_info") or "3").split(".")[:2])
    names = tuple(names)
    return OtherVenv(
        home=home,
        python=settings.get("executable") or settings.get("base-executable") or f"{home}/python{minor}",
        sees_base=settings.get("include-system-site-packages", "").lower() == "true",
        programs=frozenset(match[1] for match in map(_PROGRAM.fullmatch, names) if match),
        packages=frozenset(canonical(match[1]) for match in map(_PACKAGE.fullmatch, names) if match),
    )

"""A virtual environment that another tool made (venv, virtualenv, uv): over which Python it lies, and what it has."""

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
    """What its pyvenv.cfg says, as PEP 405 and the tools write it, and its names.

    home: the folder of the Python that it was made by. python: that program. sees_base: it sees the packages of that
    one too. programs: what its bin/ has. packages: by the names that resolvers compare.
    """

    home: str
    python: str
    sees_base: bool
    programs: frozenset[str]
    packages: frozenset[str]


def other_venv(path: Path) -> OtherVenv | None:
    """Return a virtual environment of another tool, a folder or packed; None for an overlay and what is none of both.

    Raises BadInput for a file that is no image, ToolMissing if an image cannot be read here.
    """
    if path.is_dir():
        if (path / RECORD_FOLDER).is_dir() or not (path / CONFIG).is_file():
            return None
        text = read_bytes(path / CONFIG, MAX_CONFIG).decode("utf-8", "replace")
        found = (*path.glob("bin/*"), *path.glob("lib/python3*/site-packages/*.dist-info"))
        return _read(text, (os.fspath(name.relative_to(path)) for name in found))
    require_image(path)
    held = by_name(listing(path, [CONFIG, "bin", "lib", RECORD_IN_IMAGE]))
    text = "" if RECORD_IN_IMAGE in held else read_texts(path, [CONFIG], known=held).get(CONFIG, "")
    return _read(text, held) if text else None


def _read(text: str, names: Iterable[str]) -> OtherVenv:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    said = {name.strip().lower(): value.strip() for name, _, value in pairs}
    home = said.get("home", "")
    minor = ".".join((said.get("version") or said.get("version_info") or "3").split(".")[:2])
    names = tuple(names)
    return OtherVenv(
        home=home,
        python=said.get("executable") or said.get("base-executable") or f"{home}/python{minor}",
        sees_base=said.get("include-system-site-packages", "").lower() == "true",
        programs=frozenset(found[1] for found in map(_PROGRAM.fullmatch, names) if found),
        packages=frozenset(canonical(found[1]) for found in map(_PACKAGE.fullmatch, names) if found),
    )

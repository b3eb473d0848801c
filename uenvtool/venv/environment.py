"""Reads the environment that a job uses: an overlay, or a virtual environment made by another tool (PEP 405)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uenvtool.core.files import read_bytes
from uenvtool.core.words import canonical
from uenvtool.image.read import by_name, listing, read_texts, require_image
from uenvtool.venv.base import site_packages
from uenvtool.venv.discovery import MAX_CONFIG, PLAIN, RECORD_FOLDER
from uenvtool.venv.info import image_data, is_older, outdated, overlay_of
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import RECORD_IN_IMAGE, require_record

_PROGRAM = re.compile(r"bin/([^/]+)")
_PACKAGE = re.compile(r"lib/python3[^/]*/site-packages/([^/]+?)-[^/-]+\.dist-info")


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """An overlay or another tool's virtual environment, packed or unpacked. Unknown values are empty or None.

    home, python: the directory and the path of the Python that created the environment. sees_base: whether the
    environment also imports that Python's packages. packages: the normalized names of its own packages. programs, site:
    the names in bin/ and the package directory, if another tool created it. name, mount: the uenv name and mount point
    of its image. kind, platform, image, view, in_container: the base in the record of an overlay (FoundBase).
    base_is_here: whether this base is available. newer: the unpacked overlay, if it has changed since it was packed.
    outdated: a warning for each package whose source has changed since it was built.
    """

    is_overlay: bool
    home: str
    python: str
    sees_base: bool
    packages: frozenset[str]
    programs: frozenset[str] = frozenset()
    site: str = ""
    is_packed: bool = False
    name: str = ""
    mount: str = ""
    kind: str = ""
    platform: str = ""
    image: str = ""
    view: str = ""
    in_container: bool | None = None
    base_is_here: bool = False
    newer: str = ""
    outdated: tuple[str, ...] = ()


def read_environment(path: Path) -> Environment:
    """Return the environment in a directory or an image.

    Raises BadInput if the path is not a virtual environment, and ToolMissing without a program that reads images.
    """
    is_packed = not path.is_dir()
    text, names = _config_of_other(path)
    data = image_data(path) if is_packed else {} if text else require_record(path).data()
    overlay = overlay_of(path.absolute()) if is_packed else None
    return replace(
        _of_other(text, names) if text else _of_overlay(data),
        is_packed=is_packed,
        name=data.get("name") or "",
        mount=data.get("mount") or "",
        newer=str(overlay) if overlay and is_older(path, overlay) else "",
        outdated=tuple(outdated(path.absolute(), data)),
    )


def _of_overlay(data: Mapping[str, Any]) -> Environment:
    base = data["base"]
    python = str(base.get("python") or "")
    return Environment(
        is_overlay=True,
        home=os.path.dirname(python),
        python=python,
        sees_base=base.get("kind") != PLAIN,
        packages=frozenset(canonical(row["name"]) for row in data["packages"]),
        kind=str(base.get("kind") or ""),
        platform=str(base.get("platform") or ""),
        image=str(base.get("image") or ""),
        view=str(base.get("view") or ""),
        in_container=bool(base["in_container"]) if "in_container" in base else None,
        base_is_here=bool(data.get("base_is_here")),
    )


def _config_of_other(path: Path) -> tuple[str, Iterable[str]]:
    if path.is_dir():
        if (path / RECORD_FOLDER).is_dir() or not (path / CONFIG).is_file():
            return "", ()
        text = read_bytes(path / CONFIG, MAX_CONFIG).decode("utf-8", "replace")
        paths = (*path.glob("bin/*"), *path.glob("lib/python3*/site-packages/*.dist-info"))
        return text, [os.fspath(name.relative_to(path)) for name in paths]
    require_image(path)
    entries = by_name(listing(path, [CONFIG, "bin", "lib", RECORD_IN_IMAGE]))
    return "" if RECORD_IN_IMAGE in entries else read_texts(path, [CONFIG], known=entries).get(CONFIG, ""), entries


def _of_other(text: str, names: Iterable[str]) -> Environment:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
    home = settings.get("home", "")
    minor = ".".join((settings.get("version") or settings.get("version_info") or "3").split(".")[:2])
    names = tuple(names)
    return Environment(
        is_overlay=False,
        home=home,
        python=settings.get("executable") or settings.get("base-executable") or f"{home}/python{minor}",
        sees_base=settings.get("include-system-site-packages", "").lower() == "true",
        site=site_packages(minor),
        programs=frozenset(match[1] for match in map(_PROGRAM.fullmatch, names) if match),
        packages=frozenset(canonical(match[1]) for match in map(_PACKAGE.fullmatch, names) if match),
    )

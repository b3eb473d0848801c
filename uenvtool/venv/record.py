"""Reads and describes an overlay's record, uenvtool.json, in PATH/.uenvtool/ or in a packed image's meta/extra/."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import read_bytes
from uenvtool.core.limits import limited
from uenvtool.core.session import in_container
from uenvtool.image.metadata import EXTRA
from uenvtool.knowledge.secrets import storable
from uenvtool.venv import sources
from uenvtool.venv.base import RECORD_FOLDER, listing
from uenvtool.venv.requirements import UserRequirement, names_of, parse

RECORD = "uenvtool.json"
RECORD_IN_IMAGE = f"{EXTRA}/{RECORD}"
IMAGE_NOTE = "image"
"""The file in PATH/.uenvtool/ that names the overlay's image, relative to the overlay."""
FORMAT = 1
MAX_BYTES = 50_000_000
DAMAGED = "make the overlay again under another name: its record is damaged"
FROM_BASE, INSTALLED, OVERRIDDEN = "from base", "installed", "overridden"
_SHAPE: dict[str, Any] = {  # a shape is a type, a list of one shape, or a table of shapes
    "base": {},
    "requests": [{"text": str, "origin": str}],
    "overrides": [str],
    "built_on_base": [str],
    "packages": [{"name": str, "version": str, "how": str, "note": str, "asked_by": [str]}],
    "made_from": {},
    "sources": [sources.SHAPE],
}
_FILES: dict[str, Any] = {
    **{"names": [str], "folder": str, "digest": str},
    **{"extra": [str], "group": [str], "options": [str]},
}
_DEFAULTS: dict[str, Any] = {"built_on_base": [], "note": "", "made_from": {}, "sources": [], "options": []}
_KINDS: dict[type, str] = {dict: "a table", list: "a list", str: "a string"}


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageRow:
    """A package of an overlay, as a row of the table.

    how: one of FROM_BASE, INSTALLED and OVERRIDDEN. asked_by: the packages and requirements that require the package.
    base_version: the replaced version of the base. change: the package's change in this run.
    """

    name: str
    version: str
    how: str
    asked_by: tuple[str, ...] = ()
    base_version: str | None = None
    note: str = ""
    change: str = ""

    def data(self) -> dict[str, Any]:
        """Return the package as data for --json and the record."""
        data = {**asdict(self), "asked_by": list(self.asked_by)}
        return data if self.change else {name: value for name, value in data.items() if name != "change"}


@dataclass(frozen=True, kw_only=True, slots=True)
class OverlayRecord:
    """The record of an overlay.

    requests: the text and origin of each requirement. built_on_base: the packages that were built with the base's
    torch. packages: the data of each PackageRow. made_from: the requirement files of the current directory that the
    command named, if any (plan.py). sources: the directories that packages were built from (sources.py). shown: the
    path that messages print.
    """

    base: Mapping[str, Any] = field(default_factory=dict)
    requests: tuple[Mapping[str, str], ...] = ()
    overrides: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    packages: tuple[Mapping[str, Any], ...] = ()
    made_from: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Mapping[str, Any], ...] = ()
    shown: str = field(default="", compare=False)

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of each installed package, by normalized name."""
        return {row["name"]: row["version"] for row in self.packages if row.get("how") != FROM_BASE}

    def rows(self) -> list[PackageRow]:
        """Return the recorded packages."""
        fields = ("name", "version", "how", "note")
        return [
            PackageRow(asked_by=tuple(row["asked_by"]), **{name: row.get(name, "") for name in fields})
            for row in self.packages
        ]

    def requirements(self) -> tuple[UserRequirement, ...]:
        """Return the recorded requirements of the user."""
        return tuple(recorded_requirement(request["text"], request["origin"], self.shown) for request in self.requests)

    def data(self) -> dict[str, Any]:
        """Return the record as data for --json. It names the files of `sources` that have changed since the record."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        del data["shown"]
        changed = sources.changed_files(self.sources)
        for source in data["sources"]:
            del source["files"]
            source["changed"] = changed.get(source["name"], ())
        return {**data, "base_is_here": _is_here(self.base)}


def _is_here(base: Mapping[str, Any]) -> bool:
    directories, recorded_listing = tuple(base.get("folders", ())), base.get("listing")
    if not all(map(os.path.isdir, directories)):
        return False
    if not base.get("in_container"):
        return True
    # A container's directories may also exist elsewhere, so their packages must match the record. An older record has
    # no checksum of the packages, and such a base counts as available in any container.
    return listing(directories) == recorded_listing if directories and recorded_listing else in_container(os.environ)


def recorded_requirement(text: str, origin: str, source: str) -> UserRequirement:
    """Return a user's requirement from a record or lock. source: the path of this record or lock, for errors."""
    return replace(parse(text, origin, Position(source)), position=None)


def noted_image(directory: Path) -> Path | None:
    """Return the image that an overlay was last packed into, or None if no readable note names the image."""
    try:
        name = os.fsdecode(read_bytes(directory / RECORD_FOLDER / IMAGE_NOTE, MAX_BYTES)).strip()
    except (FileNotFoundError, BadInput):
        return None
    return Path(os.path.normpath(directory / name)) if name and "\0" not in name else None


def image_note(directory: Path, image: Path) -> dict[str, str]:
    """Return the note that records an overlay's image, as its file name relative to the overlay and its content."""
    return {f"{RECORD_FOLDER}/{IMAGE_NOTE}": os.path.relpath(os.path.abspath(image), directory) + "\n"}


def read_record(directory: Path) -> OverlayRecord | None:
    """Return the record of an unpacked overlay, or None if it has no record. Raises BadInput if it is damaged."""
    path = directory / RECORD_FOLDER / RECORD
    try:
        return parse_record(read_bytes(path, MAX_BYTES).decode("utf-8"), str(path))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise BadInput(f"byte {error.start} is not UTF-8", Position(str(path)), DAMAGED) from error


def require_record(directory: Path) -> OverlayRecord:
    """Return the record of an unpacked overlay. Raises BadInput if the directory has no record."""
    record = read_record(directory)
    if record is None:
        raise BadInput(f"'{directory}' is not an overlay", hint="create one with `uenvtool venv PATH`")
    return record


def parse_record(text: str, shown: str) -> OverlayRecord:
    """Return a record from its text. Raises BadInput if its format is unknown or a value has the wrong type."""
    with limited(shown):
        data = _checked(text, shown)
        lists = {name: tuple(data.get(name, ())) for name, shape in _SHAPE.items() if isinstance(shape, list)}
        lists["requests"] = storable(lists["requests"])  # older versions recorded logins
        return OverlayRecord(shown=shown, base=data["base"], made_from=data.get("made_from", {}), **lists)


def _checked(text: str, shown: str) -> dict[str, Any]:
    position = Position(shown)
    try:
        data: dict[str, Any] = json.loads(text)
        _check(data, {}, RECORD)
        version = data.get("format")
        if version != FORMAT and isinstance(version, int):
            raise BadInput(f"unknown format {version} of the record", position, "use a newer version of uenvtool")
        if version != FORMAT:
            raise TypeError(f"format must be {FORMAT}")
        _check(data, _SHAPE, RECORD)
        base = {name: value for name, value in data["base"].items() if name != "in_container"}
        _check(base, {name: [str] if name == "folders" else str for name in base}, "base")
        if data.get("made_from"):
            _check(data["made_from"], _FILES, "made_from")
        names_of(data["overrides"])
    except json.JSONDecodeError as error:
        message = error.msg.removesuffix(" at").removesuffix(" starting")
        raise BadInput(f"invalid JSON: {message}", Position(shown, error.lineno, error.colno), DAMAGED) from error
    except (ValueError, TypeError) as error:
        raise BadInput(f"not written by uenvtool: {error}", position, DAMAGED) from error
    return data


def _check(data: Any, shape: Any, place: str) -> None:
    kind: Any = shape if isinstance(shape, type) else type(shape)
    if type(data) is not kind or (kind is str and "\0" in data):
        raise TypeError(f"{place} must be {_KINDS[kind]}")
    if isinstance(shape, list):
        for item in data:
            _check(item, shape[0], f"each of {place}")
    elif isinstance(shape, dict):
        for name, inner in shape.items():
            _check(data.get(name, _DEFAULTS.get(name)), inner, f"{name} of {place}" if place != RECORD else name)

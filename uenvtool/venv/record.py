"""What an overlay says of itself: uenvtool.json, in PATH/.uenvtool/ and in a packed image's meta/extra/."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import read_bytes
from uenvtool.venv.base import Base
from uenvtool.venv.create import RECORD_FOLDER
from uenvtool.venv.outcome import FROM_BASE, PackageRow
from uenvtool.venv.precedence import PYTHONPATH, SITE
from uenvtool.venv.requirements import UserRequest, UserRequirement, names_of, recorded_requirement

RECORD = "uenvtool.json"
IMAGE_NOTE = "image"
"""The file in PATH/.uenvtool/ that names the overlay's image, relative to the overlay."""
FORMAT = 1
MAX_BYTES = 50_000_000
DAMAGED = "it is damaged: make it again under another name"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayRecord:
    """How an overlay was made.

    requests: text and origin of each. built_on_base: packages that were built with the base's torch.
    packages: rows as data. shown: where it stands, for messages.
    """

    base: Mapping[str, Any] = field(default_factory=dict)
    requests: tuple[Mapping[str, str], ...] = ()
    overrides: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    precedence: str = "site"
    packages: tuple[Mapping[str, Any], ...] = ()
    shown: str = field(default="", compare=False)

    @property
    def versions(self) -> dict[str, str]:
        """What was installed: normalized name -> version."""
        return {row["name"]: row["version"] for row in self.packages if row.get("how") != FROM_BASE}

    def requirements(self) -> tuple[UserRequirement, ...]:
        """What the user wanted then."""
        place = Position(self.shown)
        return tuple(recorded_requirement(request["text"], request["origin"], place) for request in self.requests)


def record_name() -> str:
    """The record's name in an image."""
    from uenvtool.image.metadata import EXTRA

    return f"{EXTRA}/{RECORD}"


def record_text(
    base: Base,
    request: UserRequest,
    rows: Sequence[PackageRow],
    *,
    overrides: Sequence[str],
    built_on_base: Sequence[str],
    precedence: str,
) -> str:
    """The text of uenvtool.json: no date and nothing of the machine but the base's own places."""
    data = {
        "format": FORMAT,
        "base": {
            "kind": base.found.kind,
            "name": base.found.name,
            "load": base.found.load,
            "image": base.found.image,
            "view": base.found.view,
            "in_container": base.found.in_container,
            "root": base.found.root,
            "python": base.python,
            "version": base.version,
            "platform": base.platform,
            "folders": list(base.folders),
            "fingerprint": base.fingerprint(),
        },
        "requests": [{"text": wanted.recorded, "origin": wanted.origin} for wanted in request.requirements],
        "overrides": list(overrides),
        "built_on_base": list(built_on_base),
        "settings": {"precedence": precedence},
        "packages": [row.data() for row in rows],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def noted_image(folder: Path) -> Path | None:
    """The image that a loose overlay was packed into last; None if it was never packed, or its note is damaged."""
    try:
        name = os.fsdecode(read_bytes(folder / RECORD_FOLDER / IMAGE_NOTE, MAX_BYTES)).strip()
    except (FileNotFoundError, BadInput):
        return None
    return Path(os.path.normpath(folder / name)) if name and "\0" not in name else None


def image_note(folder: Path, image: Path) -> dict[str, str]:
    """The note of an overlay's image, as a file below the overlay: name to content."""
    return {f"{RECORD_FOLDER}/{IMAGE_NOTE}": os.path.relpath(image, folder) + "\n"}


def read_record(folder: Path) -> OverlayRecord | None:
    """The record of a loose overlay; None if the folder is not one of this tool's.

    Raises BadInput if it is there and cannot be read.
    """
    path = folder / RECORD_FOLDER / RECORD
    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise BadInput(f"byte {error.start} is not UTF-8", Position(str(path)), DAMAGED) from error
    return parse_record(text, str(path))


def parse_record(text: str, shown: str) -> OverlayRecord:
    """The record of a text. Raises BadInput if it has another format, or anything in it is of another kind."""
    try:
        data = _mapping(json.loads(text), "it")
        if data.get("format") != FORMAT and isinstance(data.get("format"), int):
            raise BadInput(f"format {data['format']} is not known here", Position(shown), "use a newer uenvtool")
        if data.get("format") != FORMAT:
            raise TypeError(f"'format' is not {FORMAT}")
        overrides = _texts(data.get("overrides"), "overrides")
        names_of(overrides)
        return OverlayRecord(
            shown=shown,
            base=_base(data.get("base")),
            requests=tuple(_request(item) for item in _list(data.get("requests"), "requests")),
            overrides=overrides,
            built_on_base=_texts(data.get("built_on_base", []), "built_on_base"),
            precedence=_precedence(data.get("settings")),
            packages=tuple(_package(item) for item in _list(data.get("packages"), "packages")),
        )
    except json.JSONDecodeError as error:
        place = Position(shown, error.lineno, error.colno)
        why = error.msg.removesuffix(" at").removesuffix(" starting")
        raise BadInput(f"not what uenvtool wrote, no JSON: {why}", place, DAMAGED) from error
    except (ValueError, TypeError) as error:
        raise BadInput(f"not what uenvtool wrote: {error}", Position(shown), DAMAGED) from error
    except RecursionError:
        raise BadInput("not what uenvtool wrote: nested too deep", Position(shown), DAMAGED) from None


def _base(data: Any) -> Mapping[str, Any]:
    base = _mapping(data, "base")
    for name, value in base.items():
        if name == "folders":
            _texts(value, "base folders")
        elif name != "in_container":
            _text(value, f"base {name}")
    return base


def _request(data: Any) -> Mapping[str, str]:
    request = _mapping(data, "a request")
    return {name: _text(request.get(name), f"{name} of a request") for name in ("text", "origin")}


def _precedence(data: Any) -> str:
    value = _mapping(data, "settings").get("precedence")
    if value not in (SITE, PYTHONPATH):
        raise TypeError(f"precedence is neither {SITE} nor {PYTHONPATH}")
    return str(value)


def _package(data: Any) -> Mapping[str, Any]:
    package = _mapping(data, "a package")
    for name in ("name", "version", "how"):
        _text(package.get(name), f"{name} of a package")
    _text(package.get("note", ""), "note of a package")
    _texts(package.get("asked_by"), "asked_by of a package")
    return package


def _mapping(data: Any, what: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise TypeError(f"{what} is no table of names and values")
    return data


def _list(data: Any, what: str) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"{what} is no list")
    return data


def _texts(data: Any, what: str) -> tuple[str, ...]:
    return tuple(_text(item, f"something in {what}") for item in _list(data, what))


def _text(data: Any, what: str) -> str:
    if not isinstance(data, str) or "\0" in data:
        raise TypeError(f"{what} is no text")
    return data

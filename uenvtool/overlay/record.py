"""What an overlay says of itself: uenvtool.json, in PATH/.uenvtool/ and in a packed image's meta/extra/."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position
from uenvtool.overlay.base import Base
from uenvtool.overlay.create import RECORD_FOLDER
from uenvtool.overlay.outcome import FROM_BASE, PackageRow
from uenvtool.overlay.requirements import UserRequest, UserRequirement, recorded_requirement

RECORD = "uenvtool.json"
IMAGE_NOTE = "image"
"""The file in PATH/.uenvtool/ that names the overlay's image, relative to the overlay."""
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayRecord:
    """How an overlay was made.

    requests: text and origin of each. built_on_base: packages that were built with the base's torch.
    packages: rows as data.
    """

    base: Mapping[str, Any] = field(default_factory=dict)
    requests: tuple[Mapping[str, str], ...] = ()
    overrides: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    precedence: str = "site"
    packages: tuple[Mapping[str, Any], ...] = ()

    @property
    def versions(self) -> dict[str, str]:
        """What was installed: normalized name -> version."""
        return {row["name"]: row["version"] for row in self.packages if row.get("how") != FROM_BASE}

    def requirements(self) -> tuple[UserRequirement, ...]:
        """What the user wanted then."""
        return tuple(recorded_requirement(request["text"], request["origin"]) for request in self.requests)


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
    """The image that a loose overlay was packed into last; None if it was never packed."""
    try:
        name = (folder / RECORD_FOLDER / IMAGE_NOTE).read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return None
    return Path(os.path.normpath(folder / name)) if name else None


def image_note(folder: Path, image: Path) -> dict[str, str]:
    """The note of an overlay's image, as a file below the overlay: name to content."""
    return {f"{RECORD_FOLDER}/{IMAGE_NOTE}": os.path.relpath(image, folder) + "\n"}


def read_record(folder: Path) -> OverlayRecord | None:
    """The record of a loose overlay; None if the folder is not one of this tool's.

    Raises BadInput if it is there and cannot be read.
    """
    path = folder / RECORD_FOLDER / RECORD
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(str(path))) from error
    return parse_record(text, str(path))


def parse_record(text: str, shown: str) -> OverlayRecord:
    """The record of a text. Raises BadInput if it has another format."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise BadInput(f"format {data['format']} is not known here", Position(shown), "use a newer uenvtool")
        return OverlayRecord(
            base=dict(data["base"]),
            requests=tuple(
                {"text": str(request["text"]), "origin": str(request["origin"])} for request in data["requests"]
            ),
            overrides=tuple(map(str, data["overrides"])),
            built_on_base=tuple(map(str, data.get("built_on_base", ()))),
            precedence=str(data["settings"]["precedence"]),
            packages=tuple(dict(row) for row in data["packages"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        hint = "the overlay is damaged: make it again under another name"
        raise BadInput(f"not what uenvtool wrote: {error}", Position(shown), hint) from error

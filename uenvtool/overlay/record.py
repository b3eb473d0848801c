"""What an overlay says of itself: uenvtool.json, in PATH/.uenvtool/ and in a packed image's meta/extra/."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position
from uenvtool.overlay.base import Base
from uenvtool.overlay.create import RECORD_FOLDER
from uenvtool.overlay.outcome import Row
from uenvtool.overlay.requirements import Asked, Request, asked_again

RECORD = "uenvtool.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Record:
    """How an overlay was made. requests: text and origin of each; packages: rows as data."""

    base: Mapping[str, Any] = field(default_factory=dict)
    requests: tuple[Mapping[str, str], ...] = ()
    overrides: tuple[str, ...] = ()
    precedence: str = "site"
    packages: tuple[Mapping[str, Any], ...] = ()

    @property
    def versions(self) -> dict[str, str]:
        """What was installed: normalized name -> version."""
        return {each["name"]: each["version"] for each in self.packages if each.get("how") != "from base"}

    def asked(self) -> tuple[Asked, ...]:
        """What was asked for then, to be asked for again."""
        return tuple(asked_again(each["text"], each["origin"]) for each in self.requests)


def record_text(base: Base, request: Request, overrides: Sequence[str], precedence: str, rows: Sequence[Row]) -> str:
    """The text of uenvtool.json: no date and nothing of the machine but the base's own places."""
    data = {
        "format": FORMAT,
        "base": {
            "kind": base.found.kind,
            "name": base.found.name,
            "load": base.found.load,
            "image": base.found.image,
            "view": base.found.view,
            "root": base.found.root,
            "python": base.python,
            "version": base.version,
            "platform": base.platform,
            "folders": list(base.folders),
            "fingerprint": base.fingerprint(),
        },
        "requests": [{"text": each.text, "origin": each.origin} for each in request.asked],
        "overrides": list(overrides),
        "settings": {"precedence": precedence},
        "packages": [row.data() for row in rows],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read_record(folder: Path) -> Record | None:
    """The record of a loose overlay; None where the folder is none of this tool's.

    Raises BadInput where it is there and cannot be read.
    """
    path = folder / RECORD_FOLDER / RECORD
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(str(path))) from error
    return parse_record(text, str(path))


def parse_record(text: str, shown: str) -> Record:
    """The record of a text. Raises BadInput where it is another format."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise BadInput(f"format {data['format']} is not known here", Position(shown), "use a newer uenvtool")
        return Record(
            dict(data["base"]),
            tuple({"text": str(each["text"]), "origin": str(each["origin"])} for each in data["requests"]),
            tuple(map(str, data["overrides"])),
            str(data["settings"]["precedence"]),
            tuple(dict(each) for each in data["packages"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        hint = "the overlay is damaged: make it again under another name"
        raise BadInput(f"not what uenvtool wrote: {error}", Position(shown), hint) from error

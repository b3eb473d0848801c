"""Which of the known systems this machine is. Each command asks that, so little is read for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.yamltree import Node, read, text


@dataclass(frozen=True, slots=True)
class Marker:
    """A sign that this machine is the system: a variable or a file's text."""

    env: str = ""
    file: str = ""
    value: str = ""

    def matches(self, environ: Mapping[str, str]) -> str | None:
        """Return what was seen; None if it is not seen."""
        if self.env:
            found = environ.get(self.env)
            seen = found is not None and self.value in ("", found)
            return f"{self.env}={found}" if seen else None
        try:
            text = Path(self.file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None
        return f"{self.file} says {self.value}" if text == self.value else None


def recognised(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return the system that this machine is, and the sign that it was recognised by; None if there is no sign.

    Only each file's own markers are looked at: a system is not recognised by what it extends. A broken
    file of the user's is passed over, so that the other systems can still be recognised.
    """
    for name, location in available(SYSTEM).items():
        try:
            found = list(markers(read(location.path, location.shown)))
        except (BadInput, AttributeError, TypeError):
            continue  # its problems are shown when somebody names it or validates it
        for marker in found:
            seen = marker.matches(environ)
            if seen:
                return name, seen
    return None


def markers(tree: Node) -> Iterator[Marker]:
    """Yield the signs that a file names."""
    node = tree.get("recognise")
    for child in node.value if node else ():
        yield Marker(text(child, "env"), text(child, "file"), text(child, "value"))

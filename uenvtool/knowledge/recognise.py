"""Which system this machine is, by the signs that the files of systems name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, Problem
from uenvtool.knowledge.bind import children
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.load import is_abstract, usable_files
from uenvtool.knowledge.locate import Location, available, how_to_add
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

    def is_shared(self, other: Marker) -> bool:
        """Tell if one machine can show both."""
        same = (self.env, self.file) == (other.env, other.file)
        return same and (self.value == other.value or (bool(self.env) and "" in (self.value, other.value)))

    def __str__(self) -> str:
        return f"{self.env or self.file}{f'={self.value}' if self.value else ''}"


def concrete_systems() -> list[str]:
    """Return the systems that do not only exist to be extended; broken files of the user's are ignored."""
    return [
        name for name, location in usable_files(SYSTEM).items() if not is_abstract(read(location.path, location.shown))
    ]


def this_system() -> str:
    """Return the system that this machine is. Raises BadInput if it is none of those that are known."""
    here = recognised()
    if here is None:
        hint = f"name one with --system: {', '.join(concrete_systems())}; or {how_to_add(SYSTEM)}"
        raise BadInput("unrecognised machine", hint=hint)
    return here[0]


def recognised(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return the system that this machine is, and the sign that it was recognised by; None if there is no sign.

    Only each file's own markers are looked at: a system is not recognised by what it extends. The user's own come
    first, but a machine that shows the same sign of a system which ships is that one.
    """
    files = available(SYSTEM).values()
    for location in sorted(files, key=lambda one: one.is_built_in):
        for marker in _markers_of(location):
            seen = marker.matches(environ)
            if seen and (location.is_built_in or not _is_of_shipped(marker, environ)):
                return location.name, seen
    return None


def _is_of_shipped(marker: Marker, environ: Mapping[str, str]) -> bool:
    shipped = (location for location in available(SYSTEM).values() if location.is_built_in)
    claims = (claim for location in shipped for claim in _markers_of(location))
    return any(claim.is_shared(marker) and claim.matches(environ) for claim in claims)


def claimed_twice(name: str, tree: Node) -> Iterator[Problem]:
    """Yield the signs in a user's file of a system by which a machine is recognised as another system."""
    others = sorted(available(SYSTEM).values(), key=lambda one: not one.is_built_in)
    before = [other for other in others if other.is_built_in or other.name < name]
    for marker, (_, node) in zip(markers(tree), children(tree, "recognise"), strict=True):
        for other in before:
            if other.name != name and any(marker.is_shared(claim) for claim in _markers_of(other)):
                yield Problem(
                    f"{marker} is a sign of {other.name} too, as which such a machine is recognised",
                    node.position,
                    f"leave it out, and name {name} with --system; or call the file {other.name}.yaml, which hides it",
                )
                break


def _markers_of(location: Location) -> list[Marker]:
    """Return the signs that a file names; none of a broken file of the user's, so that other systems are recognised."""
    try:
        return list(markers(read(location.path, location.shown)))
    except (BadInput, AttributeError, TypeError):
        return []  # its problems are shown when somebody names it or validates it


def markers(tree: Node) -> Iterator[Marker]:
    """Yield the signs that a file names."""
    node = tree.get("recognise")
    for child in node.value if node else ():
        yield Marker(text(child, "env"), text(child, "file"), text(child, "value"))

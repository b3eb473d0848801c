"""Recognises the system that this machine belongs to, from the markers in the files of systems."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, Problem
from uenvtool.knowledge.bind import children
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.load import usable_files
from uenvtool.knowledge.locate import Location, available, how_to_add
from uenvtool.knowledge.yamltree import Node, is_abstract, read, text


@dataclass(frozen=True, slots=True)
class Marker:
    """An environment variable or file content that identifies the machines of a system."""

    env: str = ""
    file: str = ""
    value: str = ""

    def matches(self, environ: Mapping[str, str]) -> str | None:
        """Return the matching variable or file as a text, or None if the marker does not match this machine."""
        if self.env:
            value = environ.get(self.env)
            seen = value is not None and self.value in ("", value)
            return f"{self.env}={value}" if seen else None
        try:
            text = Path(self.file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None
        return f"{self.file} contains {self.value}" if text == self.value else None

    def is_shared(self, other: Marker) -> bool:
        has_same_source = (self.env, self.file) == (other.env, other.file)
        return has_same_source and (self.value == other.value or (bool(self.env) and "" in (self.value, other.value)))

    def __str__(self) -> str:
        return f"{self.env or self.file}{f'={self.value}' if self.value else ''}"


def concrete_systems(files: Mapping[str, Location] | None = None) -> list[str]:
    """Return the names of the systems that are not abstract. files: The files by name; default: the usable files."""
    files = usable_files(SYSTEM) if files is None else files
    return [name for name, location in files.items() if not is_abstract(read(location.path, location.shown))]


def this_system() -> str:
    """Return the name of the system that this machine belongs to. Raises BadInput if it is not a known system."""
    this_machine = recognised()
    if this_machine is None:
        hint = f"name one with --system: {', '.join(concrete_systems())}; or {how_to_add(SYSTEM)}"
        raise BadInput("this machine is not a known system", hint=hint)
    return this_machine[0]


def recognised(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return the system that this machine belongs to and the marker that matched, or None if no marker matches.

    Inherited markers are not used, so an extended system does not affect recognition. The user's files have priority.
    However, if the same marker also belongs to a built-in system, the machine is recognised as the built-in system.
    """
    files = available(SYSTEM).values()
    built_in = [marker for location in files if location.is_built_in for marker in _markers_of(location)]
    for location in sorted(files, key=lambda file: file.is_built_in):
        for marker in _markers_of(location):
            seen = marker.matches(environ)
            claims = () if location.is_built_in else built_in
            if seen and not any(claim.is_shared(marker) and claim.matches(environ) for claim in claims):
                return location.name, seen
    return None


def duplicate_markers(name: str, tree: Node) -> Iterator[Problem]:
    """Yield a problem for each marker of a user's system that also belongs to a system with precedence."""
    others = sorted(available(SYSTEM).values(), key=lambda file: not file.is_built_in)
    before = [other for other in others if (other.is_built_in or other.name < name) and other.name != name]
    for marker, (_, node) in zip(markers(tree), children(tree, "recognise"), strict=True):
        sharing = (other.name for other in before if any(map(marker.is_shared, _markers_of(other))))
        if other := next(sharing, ""):
            yield Problem(
                f"{marker} is also a marker of {other}, and {other} takes precedence",
                node.position,
                f"remove the marker and use --system {name}, or rename the file to {other}.yaml to replace {other}",
            )


def _markers_of(location: Location) -> list[Marker]:
    try:
        return list(markers(read(location.path, location.shown)))
    except (BadInput, AttributeError, TypeError):
        return []  # commands that name the file, and `validate`, report its problems


def markers(tree: Node) -> Iterator[Marker]:
    """Yield the markers in a file."""
    for _, child in children(tree, "recognise"):
        yield Marker(text(child, "env"), text(child, "file"), text(child, "value"))

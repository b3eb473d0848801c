"""Reads `spack.lock`: which packages, at which versions, an environment resolved to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position


@dataclass(frozen=True, slots=True)
class Package:
    """One resolved package. external: its path where the system brings it, else empty."""

    name: str
    version: str
    hash: str
    target: str
    os: str
    external: str


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock: the roots as asked for, every package, and the Spack that made it."""

    roots: tuple[str, ...]
    packages: tuple[Package, ...]
    spack: str

    def versions(self) -> dict[str, list[str]]:
        """Package to its versions, each once, sorted by name."""
        found: dict[str, list[str]] = {}
        for package in sorted(self.packages, key=lambda each: (each.name, each.version)):
            known = found.setdefault(package.name, [])
            if package.version not in known:
                known.append(package.version)
        return found


def parse_lock(text: str, shown: str) -> Lock:
    """The lock in a text. Raises BadInput where it is none."""
    try:
        data = json.loads(text)
        packages = tuple(_package(key, spec) for key, spec in data["concrete_specs"].items())
        roots = tuple(str(root["spec"]) for root in data["roots"])
        made_by = data.get("spack", {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        line = getattr(error, "lineno", 1)
        raise BadInput(
            "not a lock of Spack", Position(shown, line, getattr(error, "colno", 1)), "make it again: uenvtool build"
        ) from error
    return Lock(roots, packages, str(made_by.get("version", "")))


def read_lock(path: Path, shown: str) -> Lock:
    """The lock in a file. Raises BadInput where it cannot be read or is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(shown), "name a spack.lock") from error
    return parse_lock(text, shown)


def _package(key: str, spec: dict[str, Any]) -> Package:
    arch = spec.get("arch") or {}
    target = arch.get("target", "")
    external = spec.get("external") or {}
    return Package(
        name=str(spec["name"]),
        version=str(spec["version"]),
        hash=key,
        target=str(target.get("name", "") if isinstance(target, dict) else target),
        os=str(arch.get("platform_os", "")),
        external=str(external.get("path") or ""),
    )

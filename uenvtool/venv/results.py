"""What comes of an order: a built overlay, a packed image, and both together in their places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.venv.base import Base
from uenvtool.venv.howto import Line
from uenvtool.venv.outcome import PackageChange, PackageRow


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltOverlay:
    """A finished overlay that is not in its place yet."""

    folder: Path
    rows: tuple[PackageRow, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedImage:
    """An image in its place. bytes: its size. previous: where the old one is kept. use: how it is used."""

    path: Path
    bytes: int
    sha256: str
    compression: str
    mount: str
    previous: Path | None = None
    use: tuple[Line, ...] = ()

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        return {
            "path": str(self.path),
            "bytes": self.bytes,
            "sha256": self.sha256,
            "compression": self.compression,
            "mount": self.mount,
            "previous": str(self.previous) if self.previous else None,
            "use": [line.data() for line in self.use],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOverlay:
    """What came of an order.

    base: None if the overlay was only packed. previous: where the old one is kept. started_by: the words that start a
    command on the base, if that was loaded for this command alone.
    """

    path: Path
    base: Base | None = None
    changes: tuple[PackageChange, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    image: PackedImage | None = None
    previous: Path | None = None
    started_by: str = ""
    dry_run: bool = False

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        return {
            "path": str(self.path),
            "dry_run": self.dry_run,
            "base": _base_data(self.base) if self.base else None,
            "packages": [change.data() for change in self.changes],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "image": self.image.data() if self.image else None,
            "previous": str(self.previous) if self.previous else None,
        }


def shown_path(path: Path) -> str:
    """A path as a user here writes it."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)


def _base_data(base: Base) -> Mapping[str, Any]:
    return {
        "kind": base.found.kind,
        "name": base.found.name,
        "python": base.python,
        "version": base.version,
        "folders": list(base.folders),
        "packages": len(base.packages),
        "fingerprint": base.fingerprint(),
    }

"""The content of a directory, for comparisons before and after a command."""

from __future__ import annotations

import os
from pathlib import Path


def snapshot(folder: str | Path) -> dict[str, bytes | str | None]:
    """Return the content of a directory by relative path: bytes for a file, a target for a link, or else None."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else _content(path)
        for path in sorted(Path(folder).rglob("*"))
    }


def files(folder: str | Path) -> dict[str, bytes]:
    """Return the bytes of the files in a directory, by relative path."""
    return {name: content for name, content in snapshot(folder).items() if isinstance(content, bytes)}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None

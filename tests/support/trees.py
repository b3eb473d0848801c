"""What lies below a folder, to be compared before and after."""

from __future__ import annotations

import os
from pathlib import Path


def snapshot(folder: str | Path) -> dict[str, bytes | str | None]:
    """Everything below a folder: relative path -> a file's bytes, a symlink's target, None for a folder."""
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else _content(path)
        for path in sorted(Path(folder).rglob("*"))
    }


def files(folder: str | Path) -> dict[str, bytes]:
    """The files below a folder: relative path -> bytes."""
    return {name: content for name, content in snapshot(folder).items() if isinstance(content, bytes)}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None

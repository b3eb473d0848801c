"""What is committed, compared with what its inputs give now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path


def differences(expected: Mapping[str, str], folder: Path) -> Iterator[str]:
    """The lines of a diff for each file of a folder that is not what is expected: name -> text."""
    import difflib

    for name, text in expected.items():
        path = folder / name
        there = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if there != text:
            yield from difflib.unified_diff(
                there.splitlines(keepends=True),
                text.splitlines(keepends=True),
                f"{path} (committed)" if there else "/dev/null",
                f"{path} (from its inputs)",
            )

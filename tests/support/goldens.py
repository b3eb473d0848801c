"""Whole files as they are to be: goldens in tests/goldens/ROOM, read in review as what they are.

`UENVTOOL_GOLDENS=1 pytest ...` writes them anew; `git diff` shows what changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.trees import files as files_below


def same_as_goldens(folder: Path, files: Mapping[str, str]) -> None:
    """Fail if files, name to text, are not those of a folder of goldens, all of them and no other."""
    if os.environ.get("UENVTOOL_GOLDENS"):
        for name in files_below(folder) if folder.is_dir() else ():
            (folder / name).unlink()
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    assert dict(files) == {name: data.decode() for name, data in files_below(folder).items()}

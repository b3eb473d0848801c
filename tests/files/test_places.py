"""Folders to work in are a run's own, whatever other runs do at that moment."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from uenvtool import files


def test_a_new_folder_that_another_run_looks_at_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uenvtool.files.places.MEMORY", tmp_path)
    make, looked_at = tempfile.mkdtemp, []

    def made_and_looked_at(**options: str) -> str:
        folder = make(**options)
        if not looked_at:  # another run has seen it before it is locked, and takes it for what a killed one left
            looked_at.append((folder, os.open(folder, os.O_RDONLY)))
            fcntl.flock(looked_at[0][1], fcntl.LOCK_EX)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made_and_looked_at)

    with files.working_folder(1) as folder:
        assert str(folder) != looked_at[0][0]
        assert folder.stat().st_mode & 0o777 == 0o700

    os.close(looked_at[0][1])
    assert not folder.exists()

"""Whatever the umask, the owner can use what a command made."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("umask", "folder", "file"), [(0o777, 0o700, 0o600), (0o277, 0o700, 0o600), (0o027, 0o750, 0o640)]
)
def test_what_is_written_can_be_read_and_written_by_its_owner(place: Path, umask: int, folder: int, file: int) -> None:
    words = [sys.executable, "-m", "uenvtool", "build", "pytorch-2.6", "--no-concretize", "-o", place / "made"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    subprocess.run(words, check=True, umask=umask, env=environ, capture_output=True)

    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in (place / "made").rglob("*")}
    assert modes == {True: folder, False: file}

"""The folders on which uenv images are mounted: only root can make them, at `/`, and a test leaves none."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import skip_without
from uenvtool.env.installable import MOUNT

FOLDERS = (Path(MOUNT), Path("/user-tools"))
"""Where Alps mounts the first image, and one of tools beside it."""


@pytest.fixture(scope="session")
def mount_points() -> Iterator[tuple[Path, ...]]:
    """The mount points of uenv images: made if this machine has none, removed by the last run of tests that uses them.

    What is mounted there is mounted in a namespace of its command alone. Skips if this user cannot make them.
    """
    with open(Path(tempfile.gettempdir()) / "uenvtool-tests-mount-points.lock", "a+") as made:
        fcntl.flock(made, fcntl.LOCK_SH)
        for folder in FOLDERS:
            if not folder.is_dir():
                try:
                    folder.mkdir(exist_ok=True)
                except OSError:
                    skip_without("the mount points of uenvs", f"as root: mkdir {' '.join(map(str, FOLDERS))}")
                made.write(f"{folder}\n")
                made.flush()
        yield FOLDERS
        try:
            fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another run, or another process of this one, uses them still
            return
        made.seek(0)
        for name in set(made.read().split()):
            Path(name).rmdir()
        made.truncate(0)

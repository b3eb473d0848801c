"""The folders on which uenv images are mounted: only root can make them, at `/`, and a test leaves none."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import skip_without
from uenvtool.env.installable import MOUNT

FOLDERS = (Path(MOUNT), Path("/user-tools"))
"""Where Alps mounts the first image, and one of tools beside it."""
HOW = f"as root: mkdir {' '.join(map(str, FOLDERS))}"


@pytest.fixture(scope="session")
def mount_points() -> Iterator[tuple[Path, ...]]:
    """The mount points of uenv images: made if this machine has none, removed by the last run of tests that uses them.

    What is mounted there is mounted in a namespace of its command alone. Skips where they are not and this user is not
    root, who alone can make and remove them: the file that says which were made is root's, in a folder that all share.
    """
    if os.geteuid() != 0:
        if not all(folder.is_dir() for folder in FOLDERS):
            skip_without("the mount points of uenvs", HOW)
        yield FOLDERS
        return
    with open(Path(tempfile.gettempdir()) / "uenvtool-tests-mount-points.lock", "a+") as made:
        fcntl.flock(made, fcntl.LOCK_SH)
        for folder in FOLDERS:
            if not folder.is_dir():
                try:
                    folder.mkdir(exist_ok=True)
                except OSError:
                    skip_without("the mount points of uenvs", HOW)
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

"""The mount points of uenv images. Only root can create them in `/`, and tests remove them."""

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
"""The mount points on Alps, for the first image and for an image with tools."""
HOW = f"as root: mkdir {' '.join(map(str, FOLDERS))}"


@pytest.fixture(scope="session")
def mount_points() -> Iterator[tuple[Path, ...]]:
    """Return the mount points of uenv images. Create missing ones, which the last test run removes.

    Images are mounted there only in the mount namespace of a command. If the mount points do not exist and this user is
    not root, the test is skipped. A file of root in the shared temporary directory lists the created mount points.
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
        except BlockingIOError:  # another run, or another process of this run, still uses them
            return
        made.seek(0)
        for name in set(made.read().split()):
            Path(name).rmdir()
        made.truncate(0)

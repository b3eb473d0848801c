"""File systems for a test: a small disk, and a mounted image."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import skip_without


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[Path]:
    """Mount a new file system of `size` (such as "600k") at `folder`. Skip the test if this user cannot mount it.

    inodes: the maximum number of files and directories, or 0 for no limit.
    """
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={inodes}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        skip_without("root that may mount", "run the tests as root, outside a restricted container")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def make_read_only(disk: Path) -> None:
    """Remount a small disk read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """Mount an image at a new directory, as root with the kernel, or else with squashfuse, or skip the test."""
    folder.mkdir(parents=True)
    kernel = ["mount", "-t", "squashfs", "-o", "loop,ro", str(image), str(folder)]
    fuse = ["squashfuse", str(image), str(folder)]
    if os.geteuid() == 0 and subprocess.run(kernel, capture_output=True, check=False).returncode == 0:
        undo = ["umount", str(folder)]
    elif shutil.which("squashfuse") and subprocess.run(fuse, capture_output=True, check=False).returncode == 0:
        undo = ["fusermount", "-u", str(folder)]
    else:
        skip_without("root with loop devices or squashfuse", "apt-get install squashfuse")
    try:
        yield folder
    finally:
        subprocess.run(undo, check=True)

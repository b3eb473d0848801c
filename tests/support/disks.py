"""Filesystems of a test's own: a small disk, and an image that is mounted."""

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
    """A new filesystem of `size` (as mount reads it, "600k") at `folder`; skips if this user cannot mount one.

    inodes: how many files and folders it holds; 0: any number.
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
    """Turn a small disk into one that takes no more writes."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


@contextmanager
def mounted(image: Path, folder: Path) -> Iterator[Path]:
    """A squashfs image at a new folder: mounted by the kernel as root, else by squashfuse; skips without both."""
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

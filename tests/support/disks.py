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


@contextmanager
def disk_with_quota(folder: Path) -> Iterator[Path]:
    """A folder of a new btrfs at `folder`, which takes a real quota (`set_quota`); skips if none can be had."""
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        skip_without("root with btrfs-progs", "as root: apt-get install btrfs-progs, outside a restricted container")
    image = folder.with_suffix(".img")
    folder.mkdir(parents=True)
    image.touch()
    os.truncate(image, 256 << 20)
    subprocess.run(["mkfs.btrfs", "--quiet", str(image)], capture_output=True, check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, check=False).returncode:
        skip_without(
            "root that may mount a btrfs", "run the tests as root, where the kernel has btrfs and loop devices"
        )
    try:
        for words in (["quota", "enable", str(folder)], ["subvolume", "create", str(folder / "v")]):
            subprocess.run(["btrfs", *words], capture_output=True, check=True)
        yield folder / "v"
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        image.unlink()


def set_quota(folder: Path, more: int | None) -> None:
    """Let a folder with a quota take so many bytes more than it has; None: as many as the disk."""

    def btrfs(*words: str) -> str:
        return subprocess.run(["btrfs", *words], capture_output=True, text=True, check=True).stdout

    disk = str(folder.parent)  # in the folder itself a spent quota lets nobody change it
    btrfs("filesystem", "sync", disk)
    group, used = next(row.split()[:2] for row in btrfs("qgroup", "show", "--raw", disk).splitlines() if "0/256" in row)
    btrfs("qgroup", "limit", "none" if more is None else str(int(used) + more), group, disk)


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

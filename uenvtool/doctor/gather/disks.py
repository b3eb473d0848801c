"""On which kind of disk a folder lies, and how many files are in it."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.doctor.checks.disks import MANY_FILES, SHARED
from uenvtool.doctor.snapshot import Folder

MOUNTS = Path("/proc/self/mountinfo")


def mounts() -> dict[str, str]:
    """Mount points to the kinds of their file systems (proc_pid_mountinfo(5))."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        before, dash, behind = line.partition(" - ")
        words = before.split()
        if dash and len(words) > 4 and behind:
            found[words[4].replace("\\040", " ")] = behind.split()[0]
    return found


def folder(path: str, mounted: dict[str, str]) -> Folder:
    """A folder with its disk; its files are counted on a shared disk, up to as many as matter."""
    real = os.path.realpath(path)
    above = [real, *map(str, Path(real).parents)]
    disk = next((mounted[point] for point in above if point in mounted), "")
    return Folder(path=path, disk=disk, files=_files(real) if disk in SHARED else 0)


def _files(path: str) -> int:
    count = 0
    for _, _, names in os.walk(path):
        count += len(names)
        if count >= MANY_FILES:
            return MANY_FILES
    return count

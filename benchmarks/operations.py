"""File-system operations of a cold import in one process: of files in place, and of images that hold them.

strace counts what is asked below the environment's folder. Of files in place, each of it goes to the file system that
has them; of an image, the node's kernel answers, and what it reads of the image's file is counted by the loop device.
Needs root, loop devices, strace and squashfs-tools.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from imports import dropped, mounted
from packing import MODULES, Images, environment
from side_by_side import Comparison, Place, Way

TRACED = "%file,read,pread64,getdents64"
_CALL = re.compile(r"^\d+\s+(\w+)\(")


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield it."""
    programs = {"strace": "apt-get install strace", "mksquashfs": "apt-get install squashfs-tools"}
    if os.getuid() != 0 or not all(place.has(program, how) for program, how in programs.items()):
        place.missing.append("operations: they need root, to mount and to drop caches")
        return
    venv = environment(place)
    images = Images(place, venv)
    images.guide().work()
    images.packed(images.made)()
    places = {"files in place": venv, "the guide's image": mounted(images.of_guide)}
    places["uenvtool's image"] = mounted(images.ours)
    modules = ["rich.console"] if place.small else MODULES
    try:
        ways = [Way(label, _counted(place, folder, modules), dropped) for label, folder in places.items()]
        about = f"`import {', '.join(modules)}`; seconds are those under strace."
        yield Comparison("Operations of a cold import", ways, about, rounds=3)
    finally:
        for folder in list(places.values())[1:]:
            subprocess.run(["umount", folder], check=True)


def _counted(place: Place, folder: Path, modules: list[str]) -> Callable[[], Mapping[str, float]]:
    """Return the work of an import under strace; the figures are what was asked, and what an image's device read."""
    trace = place.folder / "trace"
    words = [str(folder / "bin/python"), "-B", "-c", f"import {', '.join(modules)}"]

    def work() -> Mapping[str, float]:
        before = _device_reads(folder)
        subprocess.run(["strace", "-f", "-y", "-e", f"trace={TRACED}", "-o", str(trace), *words], check=True)
        reads, megabytes = (after - first for after, first in zip(_device_reads(folder), before, strict=True))
        lines = [line for line in trace.read_text(errors="replace").splitlines() if f"{folder}/" in line]
        calls = [found[1] for line in lines if (found := _CALL.match(line))]
        data = sum(name in ("read", "pread64") for name in calls)
        failed = sum("= -1 E" in line for line in lines)
        own = {"reads of the image": float(reads), "MB of it": megabytes}
        return {"lookups": float(len(calls) - data), "of them for nothing": float(failed), "reads": float(data), **own}

    return work


def _device_reads(folder: Path) -> tuple[int, float]:
    """Return the reads and megabytes that the loop device of a mount has done; nothing for a folder that is none."""
    words = ["findmnt", "-n", "-o", "SOURCE", "--mountpoint", str(folder)]
    device = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    if not device:
        return 0, 0.0
    fields = (Path("/sys/block") / Path(device).name / "stat").read_text().split()
    return int(fields[0]), int(fields[2]) * 512 / 1e6

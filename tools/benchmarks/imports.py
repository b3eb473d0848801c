"""Measures imports in 1 to 64 parallel processes, from files in place and from each kind of image.

A cold import is the first one after the kernel's caches were dropped, and a warm import is the next one. Tykky's image
is also mounted with squashfuse, as Apptainer does without the setuid bit. The start of Tykky's container is not
measured. Needs root and loop devices.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from packing import MODULES, Images, environment
from side_by_side import Comparison, Place, Way

OURS, STALE = "uenvtool's image", "an image with Stackinator's options"
ROUNDS = {1: 5, 4: 5, 16: 3, 64: 2}
"""The number of rounds for each number of processes. A round with 64 processes has 768 imports."""


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield a comparison for each number of processes."""
    if os.getuid() != 0 or not place.has("mksquashfs", "apt-get install squashfs-tools"):
        place.missing.append("imports from images: they need root, to mount and to drop caches")
        return
    venv = environment(place)
    images = Images(place, venv)
    for way in (images.guide(), images.stackinator(), images.tykky()):
        way.work()
    images.packed(images.made)()
    mounts = {
        OURS: mounted(images.ours),
        "the guide's image": mounted(images.of_guide),
        STALE: mounted(images.of_stackinator),
        "Tykky's image": mounted(images.of_tykky),
    }
    if place.has("squashfuse_ll", "apt-get install squashfuse"):
        mounts["Tykky's image, squashfuse"] = mounted(images.of_tykky, "squashfuse_ll")
    modules = ["rich.console"] if place.small else MODULES
    try:
        stale = [_cold(label, mounts[label], modules, 1, goal) for label, goal in ((STALE, None), (OURS, 0.5))]
        yield Comparison("Import with outdated bytecode, and with current bytecode", stale, " ".join(modules))
        for count in (1, 4) if place.small else (1, 4, 16, 64):
            yield _comparison({"files in place": venv, **mounts}, modules, count)
    finally:
        for folder in mounts.values():
            subprocess.run(["umount", folder], check=True)


def _comparison(places: Mapping[str, Path], modules: list[str], count: int) -> Comparison:
    """Return the comparison for a number of processes: for each place, a cold import and then a warm one."""
    goals = {OURS: 1.05}
    ways = [
        way
        for label, folder in places.items()
        for way in (
            _cold(label, folder, modules, count, goals.get(label)),
            Way(f"{label}, warm", _imports(folder, modules, count)),
        )
    ]
    title = f"Import in {count} process{'es' if count > 1 else ''}"
    return Comparison(title, ways, " ".join(modules), rounds=ROUNDS[count])


def _cold(label: str, folder: Path, modules: list[str], count: int, goal: float | None) -> Way:
    return Way(f"{label}, cold", _imports(folder, modules, count), dropped, goal)


def _imports(folder: Path, modules: list[str], count: int) -> Callable[[], Mapping[str, float]]:
    """Return a function that imports in parallel processes and returns the mean of their times."""
    words = [str(folder / "bin/python"), "-B", "-c", f"import {', '.join(modules)}"]

    def work() -> Mapping[str, float]:
        begun = time.perf_counter()
        running = [subprocess.Popen(words) for _ in range(count)]
        codes = [process.wait() for process in running]
        if any(codes):
            raise RuntimeError(" ".join(words))
        return {"seconds a process": (time.perf_counter() - begun) / count}

    return work


def dropped() -> None:
    """Drop the kernel's caches."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def mounted(image: Path, program: str = "") -> Path:
    """Mount an image with the kernel or a program in user space, and return the mount point."""
    folder = image.with_suffix(f".mounted{program and '-'}{program}")
    folder.mkdir(exist_ok=True)
    subprocess.run(
        [program, image, folder] if program else ["mount", "-t", "squashfs", "-o", "loop,ro", image, folder], check=True
    )
    return folder

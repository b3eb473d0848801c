"""Importing from an environment in 1 to 64 processes at once: from files in place, and from images of each kind.

Cold: after the kernel's caches were dropped; warm: once more. Needs root, and loop devices.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from packing import MODULES, Images, environment
from side_by_side import Comparison, Place, Way


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield one for each number of processes."""
    if os.getuid() != 0 or not place.has("mksquashfs", "apt-get install squashfs-tools"):
        place.missing.append("imports from images: they need root, to mount and to drop caches")
        return
    venv = environment(place)
    images = Images(place, venv)
    for work in (images.guide().work, images.stackinator().work, images.packed(images.made)):
        work()
    mounts = {image: mounted(image) for image in (images.of_guide, images.ours, images.of_stackinator)}
    labels = ("the guide's image", "uenvtool's image", "an image with Stackinator's options")
    places = {"files in place": venv, **dict(zip(labels, mounts.values(), strict=True))}
    modules = ["rich.console"] if place.small else MODULES
    try:
        for count in (1, 4) if place.small else (1, 4, 16, 64):
            ways = [
                Way(f"{label}, {state}", _imports(folder, modules, count), dropped if state == "cold" else _kept)
                for label, folder in places.items()
                for state in ("cold", "warm")
            ]
            ordered = sorted(ways, key=lambda way: way.label.endswith("warm"))
            yield Comparison(f"Import in {count} process{'es' if count > 1 else ''}", ordered, " ".join(modules))
    finally:
        for folder in mounts.values():
            subprocess.run(["umount", folder], check=True)


def _imports(folder: Path, modules: list[str], count: int) -> Callable[[], Mapping[str, float]]:
    """Return the work of so many processes that import at once; the figure is the mean of their times."""
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
    """Drop what the kernel has cached."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def _kept() -> None:
    """Leave the caches as they are."""


def mounted(image: Path) -> Path:
    """Mount an image; where."""
    folder = image.with_suffix(".mounted")
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "squashfs", "-o", "loop,ro", image, folder], check=True)
    return folder

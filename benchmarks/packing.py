"""Packing an environment beside the published guide's command, as ratios in one run.

    python benchmarks/packing.py VENV [ROUNDS [MODULE...]]

VENV is a virtual environment with its bytecode, for example of torch, transformers and scipy; the
modules are what is imported (those three). Prints a table: seconds to pack, size, seconds of the
first import after the kernel's caches were dropped, what its processes take for themselves and in
the kernel (which decompresses), and seconds of the next import, also from VENV as it lies on disk;
the budgets are those of the design. What uenvtool takes has bytecode, read-back and a sum in it; the
row below is mksquashfs alone. What is packed is in the kernel's cache. Imports need root and loop
devices. Rounds are interleaved, so that what else the machine does weighs on all alike; the median
is taken.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from uenvtool.core import files
from uenvtool.image import pack as packing
from uenvtool.image.bytecode import compile_tree
from uenvtool.image.write import write_image
from uenvtool.venv.image import packed as packed_image

GUIDE = ["-no-recovery", "-noappend", "-Xcompression-level", "3"]
"""The options with which the published guide packs a virtual environment."""
LABELS = {
    "guide": "mksquashfs as the guide has it",
    "overlay": "uenvtool, an overlay that it made",
    "alone": "  of that, mksquashfs",
    "guide all": "compileall, then mksquashfs",
    "any": "uenvtool, any environment (compiles)",
    "place": "files in place",
}
BUDGETS = {"pack": 0.6, "size": 0.95, "cold": 0.75}
WRITING: list[float] = []
"""The seconds of mksquashfs in what uenvtool packed."""
FIGURES = ("pack", "size", "cold", "own", "kernel", "warm")


def main() -> None:
    """Measure and print."""
    venv = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    modules = sys.argv[3:] or ["torch", "transformers", "scipy"]
    found: dict[str, dict[str, list[float]]] = {label: {name: [] for name in FIGURES} for label in LABELS}
    with tempfile.TemporaryDirectory(dir=venv.parent) as temporary:
        folder = Path(temporary)
        ways = prepared(venv, folder)
        for _ in range(rounds):
            for label, (pack, image) in ways.items():
                image.unlink(missing_ok=True)
                cached(venv if label in ("guide", "any") else folder / ("made" if label == "overlay" else "plain"))
                found[label]["pack"].append(elapsed(pack))
                if label == "overlay":
                    found["alone"]["pack"].append(WRITING.pop())
                found[label]["size"].append(image.stat().st_size / 1e6)
        for _ in range(rounds if os.getuid() == 0 else 0):  # afterwards: it drops the caches of what packs, too
            for label in ("guide", "overlay", "place"):
                in_place = contextlib.nullcontext(venv)
                with mounted(ways[label][1], folder / "mount") if label in ways else in_place as place:
                    for name, seconds in imported(place, modules).items():
                        found[label][name].append(seconds)
    show(found)


def prepared(venv: Path, folder: Path) -> dict[str, tuple[Callable[[], object], Path]]:
    """What packs in each way, and the image that it writes."""
    made, plain = folder / "made", folder / "plain"
    for copy in (made, plain):
        shutil.copytree(venv, copy, symlinks=True)
    compile_tree(made / "bin" / "python", made, checked=True)
    images = {label: folder / f"{label.replace(' ', '-')}.squashfs" for label in LABELS}

    def guide(label: str) -> Callable[[], object]:
        return lambda: subprocess.run(["mksquashfs", venv, images[label], *GUIDE], check=True, capture_output=True)

    def compiled() -> None:
        jobs = str(len(os.sched_getaffinity(0)))
        words: list[str | Path] = [plain / "bin" / "python", "-m", "compileall", "-q", "-f", "-j", jobs, plain / "lib"]
        subprocess.run(words, check=False, capture_output=True)  # it fails where a file is no Python
        guide("guide all")()

    def packed(source: Path, label: str) -> Callable[[], object]:
        return lambda: pack_overlay(source, images[label])

    pack: dict[str, Callable[[], object]] = {
        "guide": guide("guide"),
        "overlay": packed(made, "overlay"),
        "guide all": compiled,
        "any": packed(venv, "any"),
    }
    return {label: (pack[label], images[label]) for label in pack}


def pack_overlay(source: Path, image: Path) -> None:
    """Pack as `uenvtool venv --squash` does, and note what mksquashfs takes of it."""

    def timed(*arguments: Any) -> None:
        WRITING.append(elapsed(lambda: write_image(*arguments), synced=False))

    with mock.patch.object(packing, "write_image", timed), packed_image(source, image, on_note=print) as new:
        files.publish([files.Replacement(new=new.path, target=image.absolute())])


def cached(tree: Path) -> None:
    """Have the kernel cache a tree, as it is when it was just made: how fast the disk reads is not what is compared."""
    for here, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(here, name)
            if not os.path.islink(path):
                with open(path, "rb") as stream:
                    while stream.read(1 << 20):
                        continue


def elapsed(work: Callable[[], object], *, synced: bool = True) -> float:
    """The wall-clock seconds of one run; what an earlier one left to be written to disk is written first."""
    if synced:
        os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def imported(place: Path, modules: list[str]) -> dict[str, float]:
    """The seconds of an import from an environment, without and with what the kernel has cached."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as stream:
        stream.write("3")
    words: list[str | Path] = [place / "bin" / "python", "-B", "-c", f"import {', '.join(modules)}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cold = elapsed(lambda: subprocess.run(words, check=True, capture_output=True))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cold": cold,
        "own": after.ru_utime - before.ru_utime,
        "kernel": after.ru_stime - before.ru_stime,
        "warm": elapsed(lambda: subprocess.run(words, check=True, capture_output=True)),
    }


@contextlib.contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """The image, mounted by the kernel; where."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "squashfs", "-o", "loop,ro", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def show(found: dict[str, dict[str, list[float]]]) -> None:
    """Print medians, and ratios to the way of the guide that does the same."""
    print(f"{'':38} {'pack s':>8} {'size MB':>8} {'cold s':>8} {'own s':>8} {'kernel s':>8} {'warm s':>8}")
    median = {
        label: {name: statistics.median(values) for name, values in figures.items() if values}
        for label, figures in found.items()
    }
    for label, text in LABELS.items():
        cells = [f"{median[label][name]:8.2f}" if name in median[label] else f"{'':8}" for name in FIGURES]
        print(f"{text:38} {' '.join(cells)}")
    for ours, theirs in (("overlay", "guide"), ("alone", "guide"), ("any", "guide all"), ("place", "guide")):
        ratios = {name: value / median[theirs][name] for name, value in median[ours].items()}
        cells = [f"{ratios[name]:7.2f}x" if name in ratios else f"{'':8}" for name in FIGURES]
        print(f"{'ratio: ' + LABELS[ours].split(', ')[-1]:38} {' '.join(cells)}")
    cells = [f"{BUDGETS[name]:7.2f}x" if name in BUDGETS else f"{'':8}" for name in FIGURES]
    print(f"{'budget':38} {' '.join(cells)}")


if __name__ == "__main__":
    main()

"""Compares reading and packing images of many packages with squashfs-tools.

    python benchmarks/image.py [ROUNDS [PACKAGES FILES]]

Creates a store like Spack's with PACKAGES packages of FILES files each (1000 of 100). Packs it with
`uenvtool.image.pack`, and with mksquashfs and the same options. Then reads an image of half as many packages with
`uenvtool image`. `show` and `sbom` are compared with listing the image with unsquashfs, and `verify` with listing it
and reading all files. The rounds alternate, so that other load of the machine affects all commands equally. The figures
are medians of the wall-clock seconds and of the CPU seconds of all processes. Needs gcc, squashfs-tools and 3 GB.
"""

from __future__ import annotations

import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from image_store import make_store

from uenvtool.image.pack import options, pack, write
from uenvtool.image.programs import Programs, find_programs
from uenvtool.image.tree import EPOCH, Tree, walk

BEYOND = {"show": 1.0, "verify": 1.0, "sbom": None}
"""The seconds that a command may take in addition to reading. For `sbom`, the budget is the total time."""
WHOLE = {"sbom": 2.0}
ALONE, WRITTEN, READ_BACK = "mksquashfs alone", "uenvtool: written", "uenvtool: and read back"
PACKING = 1.1
"""The maximum ratio to mksquashfs for writing an image, without the comparison with its tree."""


class Seconds(NamedTuple):
    """The wall-clock seconds and CPU seconds of a run."""

    clock: float
    processors: float


def main() -> None:
    """Measure and print the results."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    packages, files = map(int, sys.argv[2:4]) if len(sys.argv) > 3 else (1000, 100)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_store(folder / "large", packages=packages, files=files)
        show_packing(packing(find_programs(), folder / "large", folder, rounds))
        make_store(folder / "store", packages=packages // 2, files=files)
        bare(find_programs(), folder / "store", folder / "image.squashfs")
        show_reading(reading(folder / "image.squashfs", rounds), packages // 2)


def packing(programs: Programs, store: Path, folder: Path, rounds: int) -> dict[str, list[Seconds]]:
    """Return the times of packing a store with uenvtool and with mksquashfs."""
    found: dict[str, list[Seconds]] = {ALONE: [], WRITTEN: [], READ_BACK: []}
    image = folder / "ours.squashfs"

    def ours(work: Callable[[Programs, Tree, Path, Path, int], object]) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            work(programs, Tree(folder=store, entries=walk(store)), image, Path(scratch), EPOCH)

    for _ in range(rounds):
        for label, work in (
            (ALONE, lambda: bare(programs, store, folder / "bare.squashfs")),
            (WRITTEN, lambda: ours(write)),
            (READ_BACK, lambda: ours(pack)),
        ):
            for image in folder.glob("*.squashfs"):
                image.unlink()
            found[label].append(elapsed(work))
    return found


def bare(programs: Programs, store: Path, image: Path) -> None:
    """Pack with mksquashfs and the options that uenvtool uses."""
    words: list[str | Path] = [programs.mksquashfs, store, image, *options(programs, EPOCH)]
    subprocess.run(words, check=True, capture_output=True)


def reading(image: Path, rounds: int) -> dict[str, list[Seconds]]:
    """Return the times of each command on an image, and of an unsquashfs that reads the same amount."""
    tool = [str(Path(sys.executable).parent / "uenvtool"), "image"]
    commands: dict[str, list[str | Path]] = {
        "listing": ["unsquashfs", "-lln", image],
        **{verb: [*tool, verb, image] for verb in BEYOND},
    }
    found: dict[str, list[Seconds]] = {label: [] for label in (*commands, "listing and reading")}
    for _ in range(rounds):
        found["listing and reading"].append(elapsed(lambda: listed_and_read(image)))
        for label, words in commands.items():
            found[label].append(elapsed(functools.partial(started, words)))
    return found


def listed_and_read(image: Path) -> None:
    """List an image and read all its files with unsquashfs."""
    started(["unsquashfs", "-lln", image])
    words: list[str | Path] = ["unsquashfs", "-no-progress", "-quiet", "-pf", "/dev/stdout", image]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        subprocess.run(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)


def started(words: list[str | Path]) -> None:
    """Run a program as a user does, with compiled bytecode, and discard its output."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=kept)


def elapsed(work: Callable[[], object]) -> Seconds:
    """Return the times of one run, after the data of earlier runs has been written to disk."""
    os.sync()
    before, start = processors(), time.perf_counter()
    work()
    return Seconds(time.perf_counter() - start, processors() - before)


def processors() -> float:
    """Return the CPU seconds of this process and its finished child processes."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def medians(found: dict[str, list[Seconds]]) -> dict[str, Seconds]:
    """Return the medians of the wall-clock and CPU seconds of each row."""
    return {
        label: Seconds(*(statistics.median(column) for column in zip(*runs, strict=True)))
        for label, runs in found.items()
    }


def show_packing(found: dict[str, list[Seconds]]) -> None:
    """Print the times of packing, and the ratio to mksquashfs."""
    median = medians(found)
    print(f"{'packing':30} {'clock s':>9} {'processors s':>13}")
    for label, seconds in median.items():
        rest = f"{seconds.processors:13.2f}" if seconds.processors else ""
        print(f"{label:30} {seconds.clock:9.2f} {rest}")
    alone = median[ALONE]
    for label, budget in ((WRITTEN, f"  budget {PACKING}x"), (READ_BACK, "")):
        clock, processors = (mine / other for mine, other in zip(median[label], alone, strict=True))
        print(f"{'ratio, ' + label:30} {clock:8.2f}x {processors:12.2f}x{budget}")


def show_reading(found: dict[str, list[Seconds]], packages: int) -> None:
    """Print the times of each command, and the part in excess of reading."""
    median = medians(found)
    print(
        f"\n{f'an image of {packages} packages':30} {'clock s':>9} {'processors s':>13} {'beyond reading':>22}  budget"
    )
    for label, seconds in median.items():
        own = f"{label:30} {seconds.clock:9.2f} {seconds.processors:13.2f}"
        if label not in BEYOND:
            print(own)
            continue
        base = median["listing and reading" if label == "verify" else "listing"]
        beyond = f"{seconds.clock - base.clock:12.2f} {seconds.processors - base.processors:9.2f}"
        budget = f"{BEYOND[label]} s beyond" if BEYOND[label] else f"{WHOLE[label]} s whole"
        print(f"{own} {beyond}  {budget}")


if __name__ == "__main__":
    main()

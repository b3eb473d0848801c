"""Images of many packages: how long they take to read and to pack, beside squashfs-tools alone.

    python benchmarks/image.py [ROUNDS [PACKAGES FILES]]

Makes a store of PACKAGES packages of FILES files each (1000 of 100), as Spack leaves one, packs it with
`uenvtool.image.pack` and with mksquashfs alone and the same options, and then an image of half as many
packages, which `uenvtool image` reads: beside `show` and `sbom` unsquashfs lists it, beside `verify`
unsquashfs lists it and gives all its contents to a program that drops them. What is beyond that is ours.
Rounds are interleaved, so that what else the machine does weighs on all alike; medians, in seconds of the
clock and of the processors (those of every process that was started). Needs gcc, squashfs-tools and 3 GB.
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
from uenvtool.image.tree import EPOCH, Tree

BEYOND = {"show": 1.0, "verify": 1.0, "sbom": None}
"""Seconds that a command may take beyond reading; `sbom` has a bar for all of it."""
WHOLE = {"sbom": 2.0}
ALONE, WRITTEN, READ_BACK = "mksquashfs alone", "uenvtool: written", "uenvtool: and read back"
PACKING = 1.1
"""How much longer than mksquashfs alone writing an image may take; comparing it with its tree comes on top."""


class Seconds(NamedTuple):
    """What a run took: of the clock, and of the processors."""

    clock: float
    processors: float


def main() -> None:
    """Measure and print."""
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
    """What packing a store takes, ours and mksquashfs alone."""
    found: dict[str, list[Seconds]] = {ALONE: [], WRITTEN: [], READ_BACK: []}
    image = folder / "ours.squashfs"

    def ours(work: Callable[[Programs, Tree, Path, Path, int], object]) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            work(programs, Tree(folder=store), image, Path(scratch), EPOCH)

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
    """Pack with mksquashfs alone, with the options that uenvtool gives it."""
    words: list[str | Path] = [programs.mksquashfs, store, image, *options(programs, EPOCH)]
    subprocess.run(words, check=True, capture_output=True)


def reading(image: Path, rounds: int) -> dict[str, list[Seconds]]:
    """What each command takes on an image, and what unsquashfs takes that reads as much."""
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
    """Let unsquashfs list an image, and give its contents to a program that drops them."""
    started(["unsquashfs", "-lln", image])
    words: list[str | Path] = ["unsquashfs", "-no-progress", "-quiet", "-pf", "/dev/stdout", image]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        subprocess.run(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, check=True)


def started(words: list[str | Path]) -> None:
    """Run a program as a user does, with the compiled files of its second run; what it prints goes nowhere."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=kept)


def elapsed(work: Callable[[], object]) -> Seconds:
    """What one run takes; what an earlier one left to be written to disk is written first."""
    os.sync()
    before, start = processors(), time.perf_counter()
    work()
    return Seconds(time.perf_counter() - start, processors() - before)


def processors() -> float:
    """The seconds of the processors of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def medians(found: dict[str, list[Seconds]]) -> dict[str, Seconds]:
    """The median of each row, by clock and by processors."""
    return {
        label: Seconds(*(statistics.median(column) for column in zip(*runs, strict=True)))
        for label, runs in found.items()
    }


def show_packing(found: dict[str, list[Seconds]]) -> None:
    """Print what packing takes, and the ratio to mksquashfs alone."""
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
    """Print what each command takes, and what of it is beyond reading."""
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

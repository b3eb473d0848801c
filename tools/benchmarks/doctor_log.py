"""Compares `doctor --log` with `grep -F` and ripgrep, which search for the same texts in the same log.

The two logs are a training log without findings, and NCCL's start-up messages from many ranks, in which every line
contains a known text. The goal is 0.3 times the speed of grep.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from side_by_side import Comparison, Place, Way, growth

from uenvtool.knowledge.finding import load_findings

TRAINING = (
    "{rank}: [2026-11-21 10:03:{rank:02},123][INFO] - Epoch 7/100 | step {step} | loss: 0.{step:06} | 63787.9 img/s\n"
)
START = "nid{rank:05}:9:9 [0] NCCL INFO Channel {step:02}/0 : 1[0] -> 0[0] [send] via NET/AWS Libfabric/0/GDRDMA\n"
MEGABYTE = 1_000_000
SIZES = (4, 40, 120, 400)


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield a comparison for each log."""
    patterns = place.folder / "patterns"
    lines = {line.text for known in load_findings().findings.values() for line in known.log}
    patterns.write_text("\n".join(sorted(lines)) + "\n")
    for label, form, megabytes in (("a training", TRAINING, 400), ("the start of NCCL", START, 40)):
        log = _written(place.folder / form[:3], form, 4 if place.small else megabytes)
        ways = [Way("grep -F", place.run("grep", "-a", "-c", "-F", "-f", patterns, log, fine=(0, 1)))]
        if place.has("rg", "apt-get install ripgrep"):
            ways.append(Way("ripgrep -F", place.run("rg", "-a", "-c", "-F", "-f", patterns, log, fine=(0, 1))))
        ways.append(Way("uenvtool doctor", place.tool("doctor", "--json", "--log", log, fine=(0, 1)), goal=3.3))
        about = f"{log.stat().st_size / MEGABYTE:.0f} MB; doctor's start is in its time."
        yield Comparison(f"Reading the log of {label}", ways, about)
    logs = {size: _written(place.folder / str(size), TRAINING, size) for size in ((1, 4) if place.small else SIZES)}
    ways = [Way(f"{size} MB", place.tool("doctor", "--json", "--log", log, fine=(0, 1))) for size, log in logs.items()]
    yield Comparison("Reading the log of a training, by its size", ways, remarks=growth)


def _written(path: Path, form: str, megabytes: int) -> Path:
    """Return a log of the given number of megabytes."""
    block = "".join(form.format(rank=number % 64, step=number % 24) for number in range(20_000)).encode()
    with path.open("wb") as stream:
        for _ in range(megabytes * MEGABYTE // len(block) + 1):
            stream.write(block)
    return path

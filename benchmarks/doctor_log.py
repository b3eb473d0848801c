"""`uenvtool doctor --log` beside `grep -F -f PATTERNS` on the same log, and its memory.

    python benchmarks/doctor_log.py [MEGABYTES] [ROUNDS]

Two logs: lines of a training, in which nothing is found, and the start of NCCL on many ranks, in which every line
holds a known text. Rounds are interleaved; the median counts. The budget is 200 MB/s, or 0.3 of grep's speed.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from uenvtool.knowledge.finding import load_findings

TRAINING = (
    "{rank}: [2026-11-21 10:03:{rank:02},123][INFO] - Epoch 7/100 | step {step} | loss: 0.{step:06} | 63787.9 img/s\n"
)
START = "nid{rank:05}:9:9 [0] NCCL INFO Channel {step:02}/0 : 1[0] -> 0[0] [send] via NET/AWS Libfabric/0/GDRDMA\n"
MEGABYTE = 1_000_000


def main() -> None:
    """Measure and print."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        patterns = folder / "patterns"
        lines = {line.text for known in load_findings().findings.values() for line in known.log}
        patterns.write_text("\n".join(sorted(lines)) + "\n")
        print(f"{'log':10} {'grep MB/s':>10} {'doctor MB/s':>12} {'ratio':>7}")
        for label, form in (("training", TRAINING), ("start", START)):
            log = written(folder / label, form, megabytes if form is TRAINING else megabytes // 10)
            print(compared(label, log, patterns, rounds))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"memory of the largest of these processes: {peak:.0f} MB")


def written(path: Path, form: str, megabytes: int) -> Path:
    """A log of so many megabytes."""
    block = "".join(form.format(rank=number % 64, step=number % 24) for number in range(20_000)).encode()
    with path.open("wb") as stream:
        for _ in range(megabytes * MEGABYTE // len(block) + 1):
            stream.write(block)
    return path


def compared(label: str, log: Path, patterns: Path, rounds: int) -> str:
    """A row of the table."""
    commands = {
        "grep": ["grep", "-a", "-c", "-F", "-f", str(patterns), str(log)],
        "doctor": [sys.executable, "-m", "uenvtool", "doctor", "--json", "--log", str(log)],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            seconds[name].append(elapsed(command))
    size = log.stat().st_size / MEGABYTE
    grep, doctor = (size / statistics.median(seconds[name]) for name in ("grep", "doctor"))
    return f"{label:10} {grep:10.0f} {doctor:12.0f} {doctor / grep:6.2f}x"


def elapsed(command: list[str]) -> float:
    """The wall-clock seconds of one run."""
    start = time.perf_counter()
    subprocess.run(command, check=False, capture_output=True, env={**os.environ, "LC_ALL": "C"})
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

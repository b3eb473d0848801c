"""Start-up and rendering as ratios to a bare `python -c pass`, in one run.

    python benchmarks/startup.py [ROUNDS [FILE]]

FILE: a uenvtool.pyz, to compare with the installed tool, of which it may take 1.5x.

Prints a table; the budgets are those of the design. Rounds are interleaved, so that what else the
machine does weighs on all alike; the median is taken.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = {
    "uenvtool --version": 8,
    "uenvtool --help": 12,
    "uenvtool doctor": 25,
    "uenvtool build pytorch-2.6": 30,
    "uenvtool job": 15,
}
SIZES = (10, 100, 1_000, 10_000)
LARGE = """\
description: A recipe with many specs.
home: clariden
uarchs: [any]
spack: {{url: https://github.com/spack/spack.git, tag: v1.1.0}}
repos: {{builtin: {{url: https://github.com/spack/spack-packages.git, tag: v2026.06.0}}}}
groups: {{all: {{specs: [{specs}]}}}}
view: {{link: all}}
"""


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        commands = prepared(folder)
        if len(sys.argv) > 2:
            single = str(Path(sys.argv[2]).resolve())
            commands |= {"FILE --version": [single, "--version"], "FILE list": [single, "list"]}
            commands["uenvtool list"] = [str(Path(sys.executable).parent / "uenvtool"), "list"]
            for label in ("FILE --version", "FILE list"):  # the first run unpacks it, and compiles what it loads
                elapsed(commands[label], folder)
        seconds: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds):
            for label, command in commands.items():
                seconds[label].append(elapsed(command, folder))
    median = {label: statistics.median(found) for label, found in seconds.items()}
    bare = median["python -c pass"]
    print(f"{'command':38} {'ms':>8} {'ratio':>7} {'budget':>7}")
    for label, value in median.items():
        budget = f"{BUDGETS[label]}x" if label in BUDGETS else ""
        print(f"{label:38} {value * 1000:8.1f} {value / bare:6.1f}x {budget:>7}")
    base = median[f"rendering {SIZES[0]} specs"]
    per_spec = [(median[f"rendering {size} specs"] - base) / size * 1e6 for size in SIZES[2:]]
    few, many = SIZES[2:]
    costs = f"{per_spec[0]:.0f} us at {few}, {per_spec[1]:.0f} us at {many}"
    print(f"beyond the first {SIZES[0]}, a spec costs {costs}")


def prepared(folder: Path) -> dict[str, list[str]]:
    """The commands to measure, by label."""
    python = [sys.executable]
    tool = [str(Path(sys.executable).parent / "uenvtool")]
    render = ["--no-concretize", "-o"]
    commands = {
        "python -c pass": [*python, "-c", "pass"],
        "uenvtool --version": [*tool, "--version"],
        "uenvtool --help": [*tool, "--help"],
        "uenvtool doctor": [*tool, "doctor"],
        "uenvtool build pytorch-2.6": [*tool, "build", "pytorch-2.6", *render, str(folder / "pytorch-2.6")],
        "uenvtool job": [
            *tool,
            "job",
            "--system",
            "clariden",
            "--account",
            "a",
            "--image",
            "u",
            "--",
            "python",
            "t.py",
        ],
    }
    for size in SIZES:
        recipe = folder / "recipes" / f"r{size}" / "recipe.yaml"
        recipe.parent.mkdir(parents=True)
        specs = ", ".join(f"pkg-{i}@1.{i} +shared" for i in range(size))
        recipe.write_text(LARGE.format(specs=specs))
        commands[f"rendering {size} specs"] = [*tool, "build", f"r{size}", *render, str(folder / f"out{size}")]
    return commands


def environment(folder: Path) -> dict[str, str]:
    """An empty HOME, and compiled files as every user has them after the first run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "HOME": str(folder)}


def elapsed(command: list[str], folder: Path) -> float:
    """The wall-clock seconds of one run."""
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment(folder))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

"""From requirements to a packed image, and the start of Python, beside what a user would do by hand, in one run.

    python benchmarks/overlay.py [ROUNDS [PACKAGE...]]

By hand is `uv venv`, `uv pip install` and the published guide's mksquashfs, on the same Python as the
base, each with an empty cache; with bytecode (--compile-bytecode), as uenvtool's image has it, and
without, so that every process compiles what it imports. Rounds are interleaved; the median is
taken. Ratios are what counts.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from uv import find_uv_bin

PACKAGES = ("transformers", "scipy", "pandas", "matplotlib")
GUIDE = ("-no-recovery", "-noappend", "-Xcompression-level", "3")
STARTS = 40
LABELS = ("by hand, with bytecode", "uenvtool venv --squash", "by hand, without")


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    packages = sys.argv[2:] or list(PACKAGES)
    uv = os.fspath(find_uv_bin())
    seconds: dict[str, list[float]] = {label: [] for label in LABELS}
    sizes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = plain_environment(folder / "base")
        work = {
            LABELS[0]: lambda: by_hand(folder, uv, base, packages, "--compile-bytecode"),
            LABELS[1]: lambda: by_tool(folder, base, packages),
            LABELS[2]: lambda: by_hand(folder, uv, base, packages),
        }
        for _ in range(rounds):
            for label in LABELS:
                seconds[label].append(elapsed(work[label]))
                image = "tool.squashfs" if label == LABELS[1] else "hand.squashfs"
                sizes[label] = (folder / image).stat().st_size / 1e6
        starts = interleaved(
            {"python -c pass": [base], "by hand": [folder / "hand/bin/python"], "overlay": [folder / "tool/bin/python"]}
        )
    print(f"{'requirements to image':24} {'s':>8} {'ratio':>7} {'MB':>7} {'ratio':>7}")
    median = {label: statistics.median(found) for label, found in seconds.items()}
    first = LABELS[0]
    for label in LABELS:
        time_ratio, size_ratio = median[label] / median[first], sizes[label] / sizes[first]
        print(f"{label:24} {median[label]:8.1f} {time_ratio:6.2f}x {sizes[label]:7.1f} {size_ratio:6.2f}x")
    print(f"\n{'python -c pass':24} {'ms':>8} {'ratio':>7}")
    for label, value in starts.items():
        print(f"{label:24} {value * 1000:8.1f} {value / starts['python -c pass']:6.2f}x")


def plain_environment(folder: Path) -> Path:
    """An environment to lie on, without packages of its own; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def by_hand(folder: Path, uv: str, base: Path, packages: list[str], *options: str) -> None:
    """What the guides say."""
    clear(folder / "hand", folder / "cache", folder / "hand.squashfs")
    run([uv, "venv", "--relocatable", "--system-site-packages", "--python", base, folder / "hand"], folder)
    install: list[str | Path] = [
        uv,
        "pip",
        "install",
        "--link-mode=copy",
        "--python",
        folder / "hand/bin/python",
        *options,
    ]
    run([*install, *pip_places(), *packages], folder)
    run(["mksquashfs", folder / "hand", folder / "hand.squashfs", *GUIDE], folder)


def by_tool(folder: Path, base: Path, packages: list[str]) -> None:
    """The same with this tool."""
    clear(folder / "tool", folder / "tool.squashfs")
    tool: list[str | Path] = [sys.executable, "-m", "uenvtool", "venv", folder / "tool", *packages]
    run([*tool, "--base", base, "--squash", folder / "tool.squashfs"], folder)


def pip_places() -> list[str]:
    """pip's settings for uv, which does not read them."""
    from uenvtool.venv.settings import read_settings

    return list(read_settings(os.environ).arguments)


def interleaved(commands: dict[str, list[Path]]) -> dict[str, float]:
    """The median start-up of each Python."""
    found: dict[str, list[float]] = {label: [] for label in commands}
    for _ in range(STARTS):
        for label, words in commands.items():
            found[label].append(elapsed(lambda words=words: run([*words, "-c", "pass"], Path.cwd())))  # type: ignore[misc]
    return {label: statistics.median(times) for label, times in found.items()}


def clear(*paths: Path) -> None:
    """Remove what the last round made."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def run(words: list[str | Path], folder: Path) -> None:
    """Run a command quietly; uv's cache lies in the folder."""
    env = {**os.environ, "UV_CACHE_DIR": str(folder / "cache")} if "uenvtool" not in words else dict(os.environ)
    subprocess.run([str(word) for word in words], check=True, capture_output=True, env=env)


def elapsed(work: Callable[[], None]) -> float:
    """The wall-clock seconds of a piece of work."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

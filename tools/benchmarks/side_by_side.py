"""Compares uenvtool with other commands. Writes results.md with ratios and their spread, and a plot per comparison.

    tools/benchmarks/run [--small] [--rounds N] [-o FOLDER] [NAME...]

The commands of a comparison alternate in each round, so that other load of the machine affects all of them equally. A
ratio compares a command with the first command in the same round. The results contain the median, the minimum and the
maximum of the ratios.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from uv import find_uv_bin

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

MODULES = ("startup", "rendering", "job", "doctor_log", "overlay", "packing", "imports")
CLOCK, CPU = "seconds", "CPU seconds"
Figures = dict[str, list[float]]
Work = Callable[[], Mapping[str, float] | None]


@dataclass(frozen=True)
class Way:
    """A command to measure.

    work: runs the command, and returns additional figures, such as a size in MB. before: unmeasured preparation.
    """

    label: str
    work: Work
    before: Callable[[], object] = lambda: None
    goal: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Commands with the same purpose, which are compared with the first one. remarks: text on the median CPU
    seconds."""

    title: str
    ways: Sequence[Way]
    about: str = ""
    rounds: int | None = None
    remarks: Callable[[Mapping[str, float]], Iterator[str]] = lambda _: iter(())


@dataclass
class Place:
    """The working directory of benchmarks.

    small: run a short version. missing: the programs that are not installed, and how to get them.
    """

    folder: Path
    small: bool
    missing: list[str] = field(default_factory=list)

    def has(self, program: str, how: str) -> bool:
        """Return whether a program is installed, and add it to `missing` if not."""
        if shutil.which(program) is None:
            self.missing.append(f"{program}: {how}")
        return shutil.which(program) is not None

    def tool(self, *words: str | Path, fine: Sequence[int] = (0,)) -> Work:
        """Return a function that runs uenvtool."""
        return self.run(Path(sys.executable).parent / "uenvtool", *words, fine=fine)

    def run(self, *words: str | Path, fine: Sequence[int] = (0,)) -> Work:
        """Return a function that runs a program with an empty home directory. fine: the exit codes of success.

        This Python is first on PATH, as in a shell with an active environment.
        """

        def work() -> None:
            kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            env = {**kept, "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "PATH": path}
            done = subprocess.run(list(map(str, words)), cwd=self.folder, capture_output=True, env=env, check=False)
            if done.returncode not in fine:
                raise RuntimeError(f"{words}: {done.returncode}: {done.stderr.decode()[-400:]}")

        return work


def main() -> None:
    """Measure, and write the results after each comparison."""
    parser = argparse.ArgumentParser(prog="tools/benchmarks/run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(MODULES)}")
    parser.add_argument("--small", action="store_true", help="run one short round")
    parser.add_argument("--rounds", type=int, help="default: depends on the comparison")
    parser.add_argument("-o", "--output", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(MODULES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; known: {', '.join(MODULES)}")
    chosen.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="uenvtool-benchmarks-") as name:
        place = Place(folder=Path(name), small=chosen.small)
        parts = ["# Results", "\n".join(f"- {line}" for line in machine(place.folder))]
        for module in chosen.names or MODULES:
            for comparison in importlib.import_module(module).comparisons(place):
                print(comparison.title, end=": ", flush=True)
                rounds = 1 if place.small else chosen.rounds or comparison.rounds or 5
                found = measured(comparison, rounds)
                picture = chosen.output / f"{module}-{len(parts)}.svg"
                picture.write_text(drawn(comparison, found))
                parts.append(described(comparison, found, picture.name, rounds))
                (chosen.output / "results.md").write_text("\n\n".join(parts) + "\n")
                print("done")
        parts.append("## Not compared\n\n" + "\n".join(f"- {line}" for line in place.missing) if place.missing else "")
        parts.append(f"Load of the machine at the end: {load()}")
        (chosen.output / "results.md").write_text("\n\n".join(filter(None, parts)) + "\n")
    print(chosen.output / "results.md")


def measured(comparison: Comparison, rounds: int) -> dict[str, Figures]:
    """Return the figures of each command, one per round."""
    found: dict[str, Figures] = {way.label: {} for way in comparison.ways}
    for _ in range(rounds):
        for way in comparison.ways:
            way.before()
            clock, cpu = time.perf_counter(), used()
            more = way.work() or {}
            for name, value in {CLOCK: time.perf_counter() - clock, CPU: used() - cpu, **more}.items():
                found[way.label].setdefault(name, []).append(value)
    return found


def used() -> float:
    """Return the user and system CPU seconds of this process and its finished child processes."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def ratios(own: Sequence[float], first: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, minimum and maximum of the ratios of two commands' figures in each round."""
    found = [mine / max(theirs, 1e-9) for mine, theirs in zip(own, first, strict=True)]
    return statistics.median(found), min(found), max(found)


def described(comparison: Comparison, found: Mapping[str, Figures], picture: str, rounds: int) -> str:
    """Return a comparison as Markdown, with medians, and ratios with their spread."""
    first = found[comparison.ways[0].label]
    names = [name for name in first if all(name in figures for figures in found.values())]
    goals = any(way.goal for way in comparison.ways)
    heads = ["", *(head for name in names for head in (name, "ratio")), *(["goal"] if goals else [])]
    rows = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for way in comparison.ways:
        cells = [way.label]
        for name in names:
            middle, least, most = ratios(found[way.label][name], first[name])
            spread = f" ({least:.2f} to {most:.2f})" if rounds > 1 and way is not comparison.ways[0] else ""
            ratio = f"{middle:.2f}x{spread}" if all(first[name]) else ""
            cells += [f"{statistics.median(found[way.label][name]):.3f}", ratio]
        rows.append(f"| {' | '.join([*cells, *([f'{way.goal}x' if way.goal else ''] if goals else [])])} |")
    medians = {label: statistics.median(figures[CPU]) for label, figures in found.items()}
    text = f"{comparison.about} Medians of {rounds} round{'s' if rounds > 1 else ''}.".strip()
    remarks = "\n".join(f"- {line}" for line in comparison.remarks(medians))
    return "\n\n".join(filter(None, [f"## {comparison.title}", text, "\n".join(rows), remarks, f"![]({picture})"]))


def growth(medians: Mapping[str, float]) -> Iterator[str]:
    """Yield the time per additional thing for the labels `NUMBER THINGS`, and the exponent of the growth."""
    sizes = {int(label.split()[0]): seconds for label, seconds in medians.items()}
    first, things = min(sizes), next(iter(medians)).split()[1]
    beyond = {size: sizes[size] - sizes[first] for size in sizes if sizes[size] - sizes[first] > 0.1 * sizes[first]}
    yield from (
        f"beyond the first {first}, one of {size} {things} costs {1e6 * seconds / (size - first):,.0f} us"
        for size, seconds in beyond.items()
    )
    if len(beyond) > 1:
        points = ((math.log(size - first), math.log(seconds)) for size, seconds in beyond.items())
        slope = statistics.linear_regression(*zip(*points, strict=True)).slope
        yield f"the time beyond that grows with the number of {things} to the power of {slope:.2f}"


def drawn(comparison: Comparison, found: Mapping[str, Figures]) -> str:
    """Return the ratios of the wall-clock times as an SVG bar chart, with their range, for light and dark pages."""
    first = found[comparison.ways[0].label][CLOCK]
    bars = [(way, *ratios(found[way.label][CLOCK], first)) for way in comparison.ways]
    scale = 380 / max(most for *_, most in bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {40 + 26 * len(bars)}" font-family="sans-serif" '
        'font-size="13"><style>text{fill:#222}line{stroke:#222}@media(prefers-color-scheme:dark){text{fill:#ddd}'
        "line{stroke:#ddd}}</style>",
        f'<text x="0" y="16" font-weight="bold">{escape(comparison.title)}: times the first</text>',
    ]
    for number, (way, middle, least, most) in enumerate(bars):
        y, colour = 34 + 26 * number, "#2a9d8f" if number else "#888"
        lines += [
            f'<text x="285" y="{y + 12}" text-anchor="end">{escape(way.label)}</text>',
            f'<rect x="293" y="{y}" width="{middle * scale:.1f}" height="16" fill="{colour}"/>',
            f'<line x1="{293 + least * scale:.1f}" x2="{293 + most * scale:.1f}" y1="{y + 8}" y2="{y + 8}"/>',
            f'<text x="{299 + most * scale:.1f}" y="{y + 12}">{middle:.2f}x</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def machine(folder: Path) -> Iterator[str]:
    """Yield the properties of the machine that affect the figures."""
    cpu = next((line.partition(": ")[2] for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    system = next((line.partition("=")[2].strip('"') for line in _lines("/etc/os-release") if "PRETTY" in line), "")
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False
    ).stdout.strip()
    yield f"{cpu or platform.machine()}, {len(os.sched_getaffinity(0))} cores for this, {memory / 1e6:.0f} GB"
    yield f"{system}, Linux {platform.release()}, {kind or 'unknown file system'} in {folder.parent}"
    yield f"Python {platform.python_version()}; {datetime.date.today()}; load at the start {load()}"
    for words in (
        ["mksquashfs", "-version"],
        [str(find_uv_bin()), "--version"],
        ["rg", "--version"],
        ["grep", "--version"],
    ):
        if shutil.which(words[0]):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            yield next(iter((done.stdout or done.stderr).splitlines()), words[0])


def load() -> str:
    """Return the load averages."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).is_file() else []


if __name__ == "__main__":
    sys.modules["side_by_side"] = sys.modules["__main__"]
    main()

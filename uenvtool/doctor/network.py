"""The results of network tests in a log, with a verdict for each message size.

The tests are nccl-tests, rccl-tests, PyTorch's all_reduce_bench, and the OSU micro-benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from uenvtool.knowledge.system import Bandwidth

TOLERANCE = 0.2
"""A run may be this share below the system's figure before it counts as slow; sites' own runs vary as much."""
SMALL = 1 << 16
"""Below this message size a test measures latency, so the table shows these rows only with --verbose."""
TCP = "Socket"
"""NCCL's name for TCP, its fallback."""
WRONG, WRONG_MPI, UNDER = "wrong-numbers", "mpi-wrong-data", "network-slow"
GOOD, OF_MPI = "good", "osu_"
NCCLS = "_perf"
"""The suffix of the nccl-tests programs; their tables do not contain the program's name."""
MOST_ROWS = 1_000
_OSU = re.compile(r"(?:^|[\s:>\]])(\d{1,12}) +(\d+\.\d+)((?: +[\d.]+)*)(?: +(Pass|Fail))?\s*$")
"""A row of an OSU table: the size, microseconds or MB/s, columns of `-f`, and the result of validation with `-c`
(https://mvapich.cse.ohio-state.edu/benchmarks, 7.5)."""
TORCHS = "all_reduce_bench"
"""PyTorch's test (stas00/ml-engineering, network/benchmarks)."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The results for one message size.

    bytes: the message size.
    busbw, in_place: the bus bandwidth out of place and in place, in GB/s.
    time: microseconds.
    wrong: the number of wrong values.
    """

    bytes: int
    busbw: float
    in_place: float = 0.0
    time: float = 0.0
    wrong: float = 0.0

    def joined(self, other: Measured) -> Measured:
        """Return the faster of two results for one size, with the wrong values of both added."""
        best = max(self, other, key=lambda row: row.busbw)
        return replace(best, wrong=self.wrong + other.wrong)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A bandwidth in GB/s that was measured on the system for one message size, with its source."""

    bytes: int
    busbw: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of a network test.

    figures: the system's bandwidths in the same test on the same number of nodes.
    network: the network that NCCL used.
    name: the name of the log.
    date: the date of the run.
    image: the image with the software.
    facts: versions and other properties.
    variables: the environment variables that NCCL used.
    """

    test: str
    rows: tuple[Measured, ...]
    figures: tuple[Figure, ...] = ()
    network: str = ""
    nodes: int = 0
    ranks: int = 0
    name: str = ""
    date: str = ""
    image: str = ""
    hosts: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the run as JSON data."""
        fields = ("date", "test", "nodes", "ranks", "network", "hosts", "image", "name")
        rows = [{"bytes": row.bytes, "busbw": row.busbw, "verdict": verdict(self, row)} for row in self.rows]
        for data, row in zip(rows, self.rows, strict=True):
            data |= {name: getattr(row, name) for name in ("in_place", "time", "wrong") if getattr(row, name)}
        figures = [{"bytes": figure.bytes, "busbw": figure.busbw, "source": figure.source} for figure in self.figures]
        named = {name: getattr(self, name) for name in fields}
        return {**named, "facts": dict(self.facts), "variables": dict(self.variables), "rows": rows, "figures": figures}


def figures_for(reference: Iterable[Bandwidth], test: str, nodes: int) -> tuple[Figure, ...]:
    """Return a system's figures for a test on a number of nodes. An empty name matches all nccl-tests programs."""
    return tuple(
        Figure(bytes=known.bytes, busbw=known.busbw, source=known.source)
        for known in reference
        if known.nodes == nodes and (known.test == test or (not test and known.test.endswith(NCCLS)))
    )


def under(run: Run, row: Measured) -> float | None:
    """Return how far the bandwidth of a row is below the reference for its size, as a fraction, or None without one."""
    return next((1 - row.busbw / figure.busbw for figure in run.figures if figure.bytes == row.bytes), None)


def verdict(run: Run, row: Measured) -> str:
    """Return the verdict on a row, or an empty string if its size has no figure for comparison."""
    is_tcp = run.network == TCP and run.nodes != 1
    if row.wrong:
        return f"broken: {'MPI' if run.test.startswith(OF_MPI) else 'NCCL'} corrupts data"
    part = under(run, row)
    if part is None:
        return "TCP" if is_tcp else ""
    if part <= TOLERANCE:
        return GOOD
    return f"{'TCP, ' if is_tcp else ''}{part:.0%} below"


def faults(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the finding IDs and details of a run: the sizes with wrong values, and the slowest size."""
    wrong = [row for row in run.rows if row.wrong]
    if wrong:
        sizes = ", ".join(f"{row.wrong:g} wrong values at {shown(row.bytes)}" for row in wrong[:3])
        more = f" and {len(wrong) - 3} more sizes" if len(wrong) > 3 else ""
        yield WRONG_MPI if run.test.startswith(OF_MPI) else WRONG, sizes + more
    parts = [(part, row.bytes, row) for row in run.rows if (part := under(run, row)) is not None]
    worst, size, row = max(parts, default=(0.0, 0, None), key=lambda part: part[:2])
    if row and worst > TOLERANCE:
        figure = next(figure for figure in run.figures if figure.bytes == size)
        measured = f"{row.busbw:g} GB/s at {shown(size)}"
        yield UNDER, f"{measured}, {worst:.0%} below {figure.busbw:g} GB/s ({figure.source})"


def summary(run: Run) -> str:
    """Return a text with the largest bandwidth, the tested sizes, and the latency."""
    best = max(run.rows, key=lambda row: row.busbw)
    sizes = [row.bytes for row in run.rows]
    tested = f" (tested {shown(min(sizes))} to {shown(max(sizes))})" if len(sizes) > 1 else ""
    first = min(run.rows, key=lambda row: row.bytes)
    latency = f"; {first.time:g} us at {shown(first.bytes)}" if first.time and first.bytes < SMALL else ""
    return f"{best.busbw:g} GB/s at {shown(best.bytes)}{tested}{latency}"


def label(run: Run) -> str:
    """Return the name of a run: its log and day, or else its test."""
    return f"{run.name} {run.date[:10]}".strip() or run.test


def shown(size: int) -> str:
    """Return a size in the units of nccl-tests, such as 8 B or 128 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size = size // 1024 if size % 1024 == 0 else round(size / 1024)
    return f"{size} {unit}"


@dataclass(slots=True)
class Rows:
    """The rows of each network test in a log, by message size.

    test: the test whose output is being read.
    ranks: the number of ranks that it printed.
    """

    by_test: dict[str, dict[int, Measured]] = field(default_factory=dict)
    test: str = ""
    ranks: int = 0

    def add(self, row: Mapping[str, str | None]) -> None:
        """Add a row. If the size already has a row, the two are joined."""
        size = int((row.get("value") or "0")[:18])
        if row.get("gb"):
            size = round(_number(row["gb"]) * 1e9)
        elif unit := row.get("unit"):
            size *= _UNITS[unit]
        counts = (_number(row.get("wrong")), _number(row.get("also")))
        is_torch_test = bool(row.get("gb") or row.get("unit"))
        self._store(
            TORCHS if is_torch_test else self.test if self.test.endswith(NCCLS) else "",
            Measured(
                bytes=size,
                busbw=_number(row.get("busbw")),
                in_place=_number(row.get("inplace")),
                time=_number(row.get("time")),
                wrong=sum(
                    count for count in counts if count >= 1
                ),  # a smaller value is the rounding error of an old version
            ),
        )

    def add_osu(self, text: str) -> None:
        """Add the rows of an OSU table, up to the next header. A time is converted to a bandwidth, size over time."""
        for line in text.partition("# OSU ")[0].splitlines():
            if match := _OSU.search(line):
                size, value, wrong = int(match[1]), float(match[2]), float(match[4] == "Fail")
                is_time = self.test == "osu_allreduce" and value > 0
                busbw = size / value / 1e3 if is_time else value / 1e3
                self._store(self.test, Measured(bytes=size, busbw=busbw, time=value if is_time else 0.0, wrong=wrong))

    def _store(self, test: str, row: Measured) -> None:
        rows = self.by_test.setdefault(test, {})
        before = rows.get(row.bytes)
        if before is None and len(rows) >= MOST_ROWS:
            return
        rows[row.bytes] = row if before is None else before.joined(row)


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:  # N/A
        return 0.0

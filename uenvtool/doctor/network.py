"""The results of network tests in a log, with a verdict for each message size.

The tests are nccl-tests, rccl-tests, PyTorch's all_reduce_bench, and the OSU micro-benchmarks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from uenvtool.knowledge.reference import Reference

SMALL = 1 << 16
"""The message size in bytes below which a test measures latency. The table shows smaller sizes only with --verbose."""
TCP = "Socket"
"""The name that NCCL uses for TCP, to which it falls back."""
WRONG, WRONG_MPI, UNDER = "wrong-numbers", "mpi-wrong-data", "network-slow"
GOOD = "good"
OSU_PREFIX, NCCL_TESTS_SUFFIX, UNNAMED_TEST = "osu_", "_perf", "all_reduce_perf"
"""The parts of a test's name that show its program. The tables of nccl-tests do not contain the program's name."""
MOST_ROWS = 1_000
_OSU = re.compile(r"(?:^|[\s:>\]])(\d{1,12}) +(\d+\.\d+)((?: +[\d.]+)*)(?: +(Pass|Fail))?\s*$")
"""Matches a row of an OSU table: size, microseconds or MB/s, the columns of `-f`, and the result of validation by `-c`
(https://mvapich.cse.ohio-state.edu/benchmarks, 7.5)."""
TORCH_TEST = "all_reduce_bench"
"""The network test for PyTorch (stas00/ml-engineering, network/benchmarks)."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The results for one message size.

    busbw, in_place: the bus bandwidth in GB/s, measured out of place and in place.
    time: the time in microseconds.
    wrong: the number of wrong values.
    """

    bytes: int
    busbw: float
    in_place: float = 0.0
    time: float = 0.0
    wrong: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of a network test.

    figures: the references for the same test on the same number of nodes.
    network: the network that NCCL used.
    name: the name of the log.
    facts: the versions and other properties in the log.
    variables: the environment variables that NCCL used.
    """

    test: str
    rows: tuple[Measured, ...]
    figures: tuple[Reference, ...] = ()
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
        keys = ("bytes", "busbw", "tolerance", "source")
        figures = [{key: getattr(figure, key) for key in keys} for figure in self.figures]
        named = {name: getattr(self, name) for name in fields}
        return {**named, "facts": dict(self.facts), "variables": dict(self.variables), "rows": rows, "figures": figures}


def figures_for(reference: Iterable[Reference], test: str, nodes: int) -> tuple[Reference, ...]:
    """Return the first reference for each size in a test on a number of nodes. An empty name means all_reduce_perf."""
    by_size: dict[int, Reference] = {}
    for figure in reference:
        if figure.nodes == nodes and figure.test == (test or UNNAMED_TEST):
            by_size.setdefault(figure.bytes, figure)
    return tuple(by_size.values())


def figure_of(run: Run, row: Measured) -> Reference | None:
    """Return the reference for the size of a row, or None if the size has no reference."""
    return next((figure for figure in run.figures if figure.bytes == row.bytes), None)


def _below(row: Measured, figure: Reference) -> float:
    return 1 - row.busbw / figure.busbw


def verdict(run: Run, row: Measured) -> str:
    """Return the verdict on a row, or an empty string if the system has no figure for its size."""
    is_tcp = run.network == TCP and run.nodes != 1
    if row.wrong:
        return f"broken: {'MPI' if run.test.startswith(OSU_PREFIX) else 'NCCL'} corrupts data"
    figure = figure_of(run, row)
    if figure is None:
        return "TCP" if is_tcp else ""
    share = _below(row, figure)
    if share <= figure.tolerance:
        return GOOD
    return f"{'TCP, ' if is_tcp else ''}{share:.0%} below"


def faults(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the finding IDs and details of a run: the sizes with wrong values, and the slowest size."""
    wrong = [row for row in run.rows if row.wrong]
    if wrong:
        sizes = ", ".join(f"{row.wrong:g} wrong values at {shown(row.bytes)}" for row in wrong[:3])
        more = f" and {len(wrong) - 3} more sizes" if len(wrong) > 3 else ""
        yield WRONG_MPI if run.test.startswith(OSU_PREFIX) else WRONG, sizes + more
    known = [(row, figure) for row in run.rows if (figure := figure_of(run, row))]
    slow = [(_below(*pair), pair) for pair in known if _below(*pair) > pair[1].tolerance]
    if slow:
        share, (row, figure) = max(slow, key=lambda pair: (pair[0], pair[1][0].bytes))
        measured = f"{row.busbw:g} GB/s at {shown(row.bytes)}"
        yield UNDER, f"{measured}, {share:.0%} below {figure.busbw:g} GB/s ({figure.source})"


def summary(run: Run) -> str:
    """Return a text with the largest bandwidth, the tested sizes, and the latency."""
    best = max(run.rows, key=lambda row: row.busbw)
    sizes = [row.bytes for row in run.rows]
    tested = f" (tested {shown(min(sizes))} to {shown(max(sizes))})" if len(sizes) > 1 else ""
    first = min(run.rows, key=lambda row: row.bytes)
    latency = f"; {first.time:g} us at {shown(first.bytes)}" if first.time and first.bytes < SMALL else ""
    return f"{best.busbw:g} GB/s at {shown(best.bytes)}{tested}{latency}"


def shown(size: int) -> str:
    """Return a size in the units of nccl-tests, such as 8 B or 128 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size = size // 1024 if size % 1024 == 0 else round(size / 1024)
    return f"{size} {unit}"


@dataclass(slots=True)
class Rows:
    """The rows of each network test in a log by message size, and the name and ranks of the current test."""

    by_test: dict[str, dict[int, Measured]] = field(default_factory=dict)
    test: str = ""
    ranks: int = 0

    def add(self, row: Mapping[str, str | None]) -> None:
        """Add a row of nccl-tests or all_reduce_bench, given as the groups of its match."""
        size = int((row.get("value") or "0")[:18])
        if row.get("gb"):
            size = round(_number(row["gb"]) * 1e9)
        elif unit := row.get("unit"):
            size *= _UNITS[unit]
        counts = (_number(row.get("wrong")), _number(row.get("also")))
        is_torch_test = bool(row.get("gb") or row.get("unit"))
        measured = Measured(
            bytes=size,
            busbw=_number(row.get("busbw")),
            in_place=_number(row.get("inplace")),
            time=_number(row.get("time")),
            wrong=sum(count for count in counts if count >= 1),  # old versions print the rounding error, below 1
        )
        nccl_test = self.test if self.test.endswith(NCCL_TESTS_SUFFIX) else ""
        self._store(TORCH_TEST if is_torch_test else nccl_test, measured)

    def merge(self, other: Rows) -> None:
        """Add the rows of another log."""
        for test, rows in other.by_test.items():
            for row in rows.values():
                self._store(test, row)
        self.test, self.ranks = other.test or self.test, max(self.ranks, other.ranks)

    def add_osu(self, text: str) -> None:
        """Add the rows of an OSU table, up to the next header. A time is converted to a bandwidth (size over time)."""
        for line in text.partition("# OSU ")[0].splitlines():
            if match := _OSU.search(line):
                size, value, wrong = int(match[1]), _number(match[2]), float(match[4] == "Fail")
                is_time = self.test == "osu_allreduce" and value > 0
                busbw = size / value / 1e3 if is_time else value / 1e3
                self._store(self.test, Measured(bytes=size, busbw=busbw, time=value if is_time else 0.0, wrong=wrong))

    def _store(self, test: str, row: Measured) -> None:
        rows = self.by_test.setdefault(test, {})
        if before := rows.get(row.bytes):
            rows[row.bytes] = replace(max(before, row, key=lambda each: each.busbw), wrong=before.wrong + row.wrong)
        elif len(rows) < MOST_ROWS:
            rows[row.bytes] = row


def _number(text: str | None) -> float:
    try:
        number = float(text or 0)
    except ValueError:  # N/A
        return 0.0
    return number if math.isfinite(number) else 0.0  # a number with hundreds of digits is too large for a float

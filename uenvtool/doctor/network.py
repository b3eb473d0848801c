"""A run of a test of the network, from the tables in a log: a verdict for each size.

The tests are nccl-tests and rccl-tests, PyTorch's all-reduce, and OSU's micro-benchmarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from uenvtool.knowledge.system import Bandwidth

TOLERANCE = 0.2
"""So far below a figure of the system a run is not called slow: sites' own runs differ as much from size to size."""
SMALL = 1 << 16
"""Below this size a test measures the latency, and the bandwidth is left out of what is shown at first."""
TCP = "Socket"
"""How NCCL names its fall-back."""
WRONG, WRONG_MPI, UNDER = "wrong-numbers", "mpi-wrong-data", "network-slow"
GOOD, OF_MPI = "good", "osu_"
NCCLS = "_perf"
"""How the programs of nccl-tests end; their tables do not name them."""
MOST_ROWS = 1_000
_OSU = re.compile(r"(?:^|[\s:>\]])(\d{1,12}) +(\d+\.\d+)((?: +[\d.]+)*)(?: +(Pass|Fail))?\s*$")
"""A row of OSU's: the size, microseconds or MB/s, what `-f` adds, and with `-c` whether what arrived is right
(https://mvapich.cse.ohio-state.edu/benchmarks, 7.5)."""
TORCHS = "all_reduce_bench"
"""PyTorch's test (stas00/ml-engineering, network/benchmarks)."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What was measured with messages of so many bytes: GB/s out of place and in place, microseconds, wrong values."""

    bytes: int
    busbw: float
    in_place: float = 0.0
    time: float = 0.0
    wrong: float = 0.0

    def joined(self, other: Measured) -> Measured:
        """Return the faster one of two of a size, with the wrong values of both."""
        best = max(self, other, key=lambda row: row.busbw)
        return replace(best, wrong=self.wrong + other.wrong)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A bandwidth that the system had with messages of so many bytes, and who says so."""

    bytes: int
    busbw: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of a test.

    figures: how fast the system has been in the same test on as many nodes. network: the one that NCCL took. name: of
    its log. date: when it ran. image: the software. facts: versions and the like.
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
        """Return it as data for --json."""
        fields = ("date", "test", "nodes", "ranks", "network", "hosts", "image", "name")
        rows = [{"bytes": row.bytes, "busbw": row.busbw, "verdict": verdict(self, row)} for row in self.rows]
        for made, row in zip(rows, self.rows, strict=True):
            made |= {name: getattr(row, name) for name in ("in_place", "time", "wrong") if getattr(row, name)}
        figures = [{"bytes": one.bytes, "busbw": one.busbw, "source": one.source} for one in self.figures]
        named = {name: getattr(self, name) for name in fields}
        return {**named, "facts": dict(self.facts), "variables": dict(self.variables), "rows": rows, "figures": figures}


def figures_for(reference: Iterable[Bandwidth], test: str, nodes: int) -> tuple[Figure, ...]:
    """Return what a system has measured in that test on so many nodes; of one without a name, in any of nccl-tests."""
    return tuple(
        Figure(bytes=known.bytes, busbw=known.busbw, source=known.source)
        for known in reference
        if known.nodes == nodes and (known.test == test or (not test and known.test.endswith(NCCLS)))
    )


def under(run: Run, row: Measured) -> float | None:
    """Return how far a row lies below the figure of its size, as a part of that; None without one."""
    return next((1 - row.busbw / figure.busbw for figure in run.figures if figure.bytes == row.bytes), None)


def verdict(run: Run, row: Measured) -> str:
    """Return what a row says of the network; nothing if there is nothing to judge it by."""
    is_tcp = run.network == TCP and run.nodes != 1
    if row.wrong:
        return f"broken: {'MPI' if run.test.startswith(OF_MPI) else 'NCCL'} delivers corrupted data"
    part = under(run, row)
    if part is None:
        return "TCP" if is_tcp else ""
    if part <= TOLERANCE:
        return GOOD
    return f"{'TCP, ' if is_tcp else ''}{part:.0%} under"


def faults(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the findings of a run: the sizes with wrong data, and where it is furthest below a figure."""
    wrong = [row for row in run.rows if row.wrong]
    if wrong:
        sizes = ", ".join(f"{row.wrong:g} values of {shown(row.bytes)}" for row in wrong[:3])
        more = f" and {len(wrong) - 3} more sizes" if len(wrong) > 3 else ""
        yield WRONG_MPI if run.test.startswith(OF_MPI) else WRONG, sizes + more
    parts = [(part, row.bytes, row) for row in run.rows if (part := under(run, row)) is not None]
    worst, size, row = max(parts, default=(0.0, 0, None), key=lambda one: one[:2])
    if row and worst > TOLERANCE:
        figure = next(figure for figure in run.figures if figure.bytes == size)
        seen = f"{row.busbw:g} GB/s at {shown(size)}"
        yield UNDER, f"{seen}, {worst:.0%} under {figure.busbw:g} ({figure.source})"


def summary(run: Run) -> str:
    """Return the largest bandwidth, the sizes that were tried, and the latency."""
    best = max(run.rows, key=lambda row: row.busbw)
    sizes = [row.bytes for row in run.rows]
    tried = f", of {shown(min(sizes))} to {shown(max(sizes))}" if len(sizes) > 1 else ""
    first = min(run.rows, key=lambda row: row.bytes)
    latency = f"; {first.time:g} us at {shown(first.bytes)}" if first.time and first.bytes < SMALL else ""
    return f"{best.busbw:g} GB/s at {shown(best.bytes)}{tried}{latency}"


def label(run: Run) -> str:
    """Return what tells a run from others: its log and its day."""
    return f"{run.name} {run.date[:10]}".strip() or run.test


def shown(size: int) -> str:
    """Return a size as nccl-tests names it: 8 B, 128 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size = size // 1024 if size % 1024 == 0 else round(size / 1024)
    return f"{size} {unit}"


@dataclass(slots=True)
class Rows:
    """The rows of each test by the size of the messages. test: the one that prints now. ranks: how many it named."""

    by_test: dict[str, dict[int, Measured]] = field(default_factory=dict)
    test: str = ""
    ranks: int = 0

    def add(self, row: Mapping[str, str | None]) -> None:
        """Take a row; of two of one size the faster one counts, and what was wrong in both."""
        size = int((row.get("value") or "0")[:18])
        if row.get("gb"):
            size = round(_number(row["gb"]) * 1e9)
        elif unit := row.get("unit"):
            size *= _UNITS[unit]
        counts = (_number(row.get("wrong")), _number(row.get("also")))
        is_torchs = bool(row.get("gb") or row.get("unit"))
        self._take(
            TORCHS if is_torchs else self.test if self.test.endswith(NCCLS) else "",
            Measured(
                bytes=size,
                busbw=_number(row.get("busbw")),
                in_place=_number(row.get("inplace")),
                time=_number(row.get("time")),
                wrong=sum(count for count in counts if count >= 1),  # below 1: an old version's rounding error
            ),
        )

    def add_osu(self, text: str) -> None:
        """Take the table below a header of OSU's, as far as the next header; a latency is also size over time."""
        for line in text.partition("# OSU ")[0].splitlines():
            if found := _OSU.search(line):
                size, value, wrong = int(found[1]), float(found[2]), float(found[4] == "Fail")
                is_time = self.test == "osu_allreduce" and value > 0
                busbw = size / value / 1e3 if is_time else value / 1e3
                self._take(self.test, Measured(bytes=size, busbw=busbw, time=value if is_time else 0.0, wrong=wrong))

    def _take(self, test: str, row: Measured) -> None:
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

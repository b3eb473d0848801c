"""A run of a test of the network: a verdict for each size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from uenvtool.core.result import Table

if TYPE_CHECKING:
    from uenvtool.knowledge.system import Bandwidth

TOLERANCE = 0.2
"""So far below a figure of the system a run is not called slow: sites' own runs differ as much from size to size."""
SMALL = 1 << 16
"""Below this size a test measures the latency, and the bandwidth is left out of what is shown at first."""
BAR = 14
TCP = "Socket"
"""How NCCL names its fall-back."""
WRONG, WRONG_MPI, UNDER = "wrong-numbers", "mpi-wrong-data", "network-slow"
GOOD, OF_MPI = "good", "osu_"


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


NCCLS = "_perf"
"""How the programs of nccl-tests end; their tables do not name them."""


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
        return f"broken: {'MPI' if run.test.startswith(OF_MPI) else 'NCCL'} delivers wrong data"
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


def table(run: Run, *, whole: bool = False) -> Table:
    """Return a run as a table, with a bar for each size and a mark where the figure of the system is.

    whole: with the sizes that measure the latency.
    """
    figures = {figure.bytes: figure.busbw for figure in run.figures}
    rows = [row for row in run.rows if whole or row.bytes >= SMALL or row.wrong] or list(run.rows)
    top = max([row.busbw for row in rows] + [figures.get(row.bytes, 0) for row in rows]) or 1
    cells = [
        (
            shown(row.bytes),
            f"{row.time:g}" if row.time else "",
            f"{row.busbw:.2f}",
            f"{row.in_place:.2f}" if row.in_place else "",
            f"{figures[row.bytes]:.2f}" if row.bytes in figures else "",
            verdict(run, row),
            _bar(row.busbw / top, figures.get(row.bytes, 0) / top),
        )
        for row in rows
    ]
    headings = (run.test or "size", "us", "GB/s", "in place", "has been", "verdict", "")
    kept = [at for at in range(len(headings)) if at == 0 or any(line[at] for line in cells)]
    return Table(
        headings=tuple(headings[at] for at in kept), rows=[[line[at] for at in kept] for line in cells], cut=True
    )


def _bar(part: float, mark: float) -> str:
    bar = ("#" * round(part * BAR)).ljust(BAR)
    at = round(mark * BAR) - 1
    return (f"{bar[:at]}|{bar[at + 1 :]}" if at >= 0 else bar).rstrip()


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

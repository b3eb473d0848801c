"""The table that nccl-tests and rccl-tests print: is the data right, and is it as fast as it has been."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from uenvtool.doctor.finding import Fault

if TYPE_CHECKING:
    from uenvtool.knowledge.system import Bandwidth

TOLERANCE = 0.2
"""So far below a figure of the system a run is not called slow: sites' own runs differ as much from size to size."""
MOST_ROWS = 1_000


@dataclass(slots=True)
class Rows:
    """The rows of a table by the size of the messages: the bus bandwidth of each, and how many values were wrong."""

    busbw: dict[int, list[float]] = field(default_factory=dict)
    wrong: dict[int, float] = field(default_factory=dict)

    def add(self, row: Mapping[str, str | None]) -> None:
        """Take a row: out of place, and what was wrong in place too."""
        size = int((row.get("value") or "0")[:18])
        if size in self.busbw or len(self.busbw) < MOST_ROWS:
            self.busbw.setdefault(size, []).append(_number(row.get("busbw")))
            counts = (_number(row.get("wrong")), _number(row.get("also")))  # below 1: an old version's rounding error
            self.wrong[size] = self.wrong.get(size, 0) + sum(count for count in counts if count >= 1)

    def summary(self) -> str:
        """Return the largest bandwidth, and the sizes that were tried."""
        size = max(self.busbw, key=lambda size: max(self.busbw[size]))
        sizes = f"{shown(min(self.busbw))} to {shown(max(self.busbw))}" if len(self.busbw) > 1 else shown(size)
        return f"{max(self.busbw[size]):g} GB/s at {shown(size)}, of {sizes}"


def judged(rows: Rows, reference: Sequence[Bandwidth], test: str, nodes: int) -> Iterator[Fault]:
    """Yield what is wrong with a table. reference: how fast the system has been; test, nodes: what the log is of."""
    wrong = [size for size, count in sorted(rows.wrong.items()) if count]
    if wrong:
        sizes = ", ".join(f"{rows.wrong[size]:g} values of {shown(size)}" for size in wrong[:3])
        yield Fault("wrong-numbers", sizes + (f" and {len(wrong) - 3} more sizes" if len(wrong) > 3 else ""))
    slow = [
        (1 - max(rows.busbw[known.bytes]) / known.busbw, known)
        for known in reference
        if known.bytes in rows.busbw and known.nodes == nodes and test in (known.test, "")
    ]
    under, known = max(slow, key=lambda found: (found[0], found[1].bytes), default=(0.0, None))
    if known and under > TOLERANCE:
        seen = f"{max(rows.busbw[known.bytes]):g} GB/s at {shown(known.bytes)}"
        yield Fault("network-slow", f"{seen}, {under:.0%} under {known.busbw:g} ({known.source})")


def shown(size: int) -> str:
    """Return a size as nccl-tests names it: 8 B, 128 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size = size // 1024 if size % 1024 == 0 else round(size / 1024)
    return f"{size} {unit}"


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:  # N/A
        return 0.0

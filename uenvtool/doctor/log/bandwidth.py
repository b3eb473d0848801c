"""The tables that tests of a network print: nccl-tests and rccl-tests, PyTorch's all-reduce, OSU's micro-benchmarks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.doctor.network import NCCLS, Measured

MOST_ROWS = 1_000
_OSU = re.compile(r"(?:^|[\s:>\]])(\d{1,12}) +(\d+\.\d+)((?: +[\d.]+)*)(?: +(Pass|Fail))?\s*$")
"""A row of OSU's: the size, microseconds or MB/s, what `-f` adds, and with `-c` whether what arrived is right
(https://mvapich.cse.ohio-state.edu/benchmarks, 7.5)."""
TORCHS = "all_reduce_bench"
"""PyTorch's test (stas00/ml-engineering, network/benchmarks)."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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

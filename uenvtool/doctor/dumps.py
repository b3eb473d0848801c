"""Reader of PyTorch's flight recorder dumps, which are recognised by content and read in separate processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import digits
from typing import Any, NamedTuple

from uenvtool.core import files, limits, processes
from uenvtool.core.errors import BadInput

READER = Path(__file__).parent / "scripts" / "dump.py"
MOST_MEMORY = 4 << 30
MOST_READERS, FILES_EACH = 16, 50
"""The number of reader processes, and of files per process. Starting a process takes as long as reading five files."""
MOST_ENDS = 3
"""The number of dumps that may end the same reader process, because they are hostile."""
_PICKLE_START, _JSON_START = b"\x80\x02", b'{"'


class Call(NamedTuple):
    """A collective as one rank called it.

    inputs, outputs: the sizes and types of its tensors.
    line: the user's line that called it, as FILE:LINE.
    state: "completed", "let go" or "open" (`_state` in scripts/dump.py).
    """

    name: str
    inputs: tuple[list[list[int]], list[str]]
    outputs: tuple[list[list[int]], list[str]]
    line: str
    state: str

    def __str__(self) -> str:
        sizes, types = self.inputs
        shown = [f"{size} {kind}" for size, kind in zip(sizes, types, strict=False)]
        more = f" and {len(shown) - 2} more" if len(shown) > 2 else ""
        return f"{self.name} ({', '.join(shown[:2])}{more})" if shown else self.name


@dataclass(frozen=True, slots=True)
class GroupDump:
    """A process group in one rank's dump: its ranks as JSON text, its description, and its last calls by number."""

    ranks: str
    description: str
    calls: Mapping[int, Call]


@dataclass(frozen=True, slots=True)
class RankDump:
    """The content of one rank's dump.

    waits: the unfinished sends and receives, each with the name of its group.
    last: the last call, with the name of its group and its number.
    is_whole: whether the dump contains all calls since the start.
    """

    rank: int
    groups: Mapping[str, GroupDump]
    waits: Sequence[tuple[str, Call]]
    last: tuple[str, int, Call] | None
    is_whole: bool


def dumps_among(paths: Iterable[Path]) -> list[Path]:
    """Return the dumps among files and in directories, including the empty dump of a rank that died while writing it.

    An empty dump is recognised by the dumps with the same base name next to it.
    """
    dumps: list[Path] = []
    for path in paths:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        whole = [file for file in inside if _is_dump(file)]
        stems = {file.name.rstrip(digits) for file in whole}
        siblings = [file for file in inside if file.name.rstrip(digits) in stems and file.is_file()]
        dumps += [file for file in siblings if file in whole or file.stat().st_size == 0]
    return dumps


def _is_dump(path: Path) -> bool:
    try:
        with files.opened(path) as stream:
            start = stream.read(1 << 12)
    except (OSError, BadInput):
        return False
    return start.startswith(_PICKLE_START) or (start.startswith(_JSON_START) and b'"entries":[' in start)


def read_dumps(paths: Sequence[Path], memory_bytes: int = MOST_MEMORY) -> tuple[list[RankDump], list[str], set[int]]:
    """Return the readable dumps sorted by rank, a message for each unreadable dump, and the ranks of these dumps.

    memory_bytes: the memory limit of each reader process.
    """
    cores = len(os.sched_getaffinity(0))
    readers = min(cores, MOST_READERS, -(-len(paths) // FILES_EACH))
    shares = [paths[first::readers] for first in range(readers)]
    with ThreadPoolExecutor(max(readers, 1)) as pool:
        rows = [row for share in pool.map(partial(_rows, memory_bytes), shares) for row in share]
    messages = [f"{os.path.basename(row['path'])}: {row['why']}" for row in rows if "why" in row]
    by_rank = {row["rank"]: _dump(row) for row in rows if "why" not in row}
    unreadable = {row["rank"] for row in rows if "why" in row and row["rank"] is not None}
    return [by_rank[rank] for rank in sorted(by_rank)], messages, unreadable


def _rows(memory_bytes: int, paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for _ in range(MOST_ENDS):
        command = [sys.executable, "-I", READER, limits.CPU_SECONDS, *map(os.path.abspath, paths)]
        done = processes.run([str(word) for word in command], memory_bytes=memory_bytes)
        rows = done.stdout.splitlines()
        yield from map(json.loads, rows)
        if len(rows) >= len(paths):
            return
        why = "the reader process ended early"
        if done.code == -signal.SIGPROF:
            why = f"reading it takes more than {limits.CPU_SECONDS} s of CPU time"
        yield {"path": str(paths[len(rows)]), "rank": None, "why": why}
        paths = paths[len(rows) + 1 :]
    why = "not read, because dumps before it ended their reader"
    yield from ({"path": str(path), "rank": None, "why": why} for path in paths)


def _dump(row: Mapping[str, Any]) -> RankDump:
    groups = {
        name: GroupDump(group["ranks"], group["desc"], {number: Call(*call) for number, call in group["calls"]})
        for name, group in row["groups"].items()
    }
    last = row["last"] and (row["last"][0], row["last"][1], Call(*row["last"][2]))
    return RankDump(row["rank"], groups, [(name, Call(*call)) for name, *call in row["waits"]], last, row["is_whole"])

"""The report of `doctor --ranks` over what 100 to 10,000 ranks wrote; the goal is 5 seconds of CPU for 10,000.

The files are as real ranks write them, four to a node, with forty variables; one in a hundred differs, one in a
thousand is missing, and one in fifty has a fault of its own node.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from side_by_side import Comparison, Place, Way, growth

VARIABLES = {f"NCCL_SETTING_{number}": "a value as it is" for number in range(30)} | {
    "FI_CXI_DEFAULT_CQ_SIZE": "131072",
    "MASTER_ADDR": "nid000001",
    "MASTER_PORT": "12345",
    "OMP_NUM_THREADS": "72",
}
FACTS = {"Python": "3.11.7", "torch": "2.6.0", "NCCL": "2.23.4", "libfabric": "1.22.0", "driver": "550.54.15"}


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield it."""
    ways = []
    for size in (100, 1_000) if place.small else (100, 300, 1_000, 3_000, 10_000):
        folder = place.folder / f"ranks{size}"
        written(folder, size)
        ways.append(Way(f"{size} ranks", place.tool("doctor", "--ranks", "--folder", folder, fine=(0, 1))))
    about = "Of files that lie there; on a parallel file system reading them takes longer."
    yield Comparison("The report of all ranks", ways, about, remarks=_goal_and_growth, rounds=3)


def written(folder: Path, size: int) -> None:
    """Write what so many ranks saw."""
    own = folder / ".uenvtool-doctor"
    own.mkdir(parents=True)
    for rank in range(size):
        node = f"nid{rank // 4:06}"
        (own / f"{rank}.begun").write_text(json.dumps({"node": node}))
        if rank % 1000 == 999:
            continue
        odd = {"NCCL_SETTING_3": f"odd {rank % 7}"} if rank % 100 == 3 else {}
        faults = [["memory-registration", f"the limit is {rank} KB"]] if rank % 50 == 0 else []
        values = {**VARIABLES, **FACTS, **odd}
        report = {"rank": rank, "node": node, "faults": faults, "values": values, "unseen": ["memory: not in a job"]}
        (own / f"{rank}.json").write_text(json.dumps(report))


def _goal_and_growth(medians: Mapping[str, float]) -> Iterator[str]:
    yield from growth(medians)
    if "10000 ranks" in medians:
        yield f"10,000 ranks: {medians['10000 ranks']:.1f} CPU seconds; the goal is 5"

"""Lines as programs print them: for each finding what shows it, and logs of runs in which nothing is wrong.

The texts are those of the issues that each finding names as its source, of the seeds, or of the program's own source.
"""

from __future__ import annotations

import re
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
_BETWEEN = re.compile(r"^%%.*\n", re.MULTILINE)
FIRES = {
    path.stem: [log for log in _BETWEEN.split(path.read_text(encoding="utf-8")) if log]
    for path in sorted(LOGS.glob("*.txt"))
}
"""Finding to logs, each of which shows it; a line of two percent signs, and where it was read, stands before each."""
HEALTHY = {path.stem: path.read_text(encoding="utf-8") for path in sorted((LOGS / "healthy").glob("*.txt"))}
ALSO = {
    "nccl-arm": {"watchdog-timeout"},
    "nccl-network-not-found": {"nccl-tcp"},
    "nccl-nonblocking": {"watchdog-timeout"},
}
"""What the logs of a finding show beside it."""
TWO_NODES = "".join(
    f"nid00{node}:9:9 [0] NCCL INFO comm 0x5 rank {node} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    for node in (1, 2)
)

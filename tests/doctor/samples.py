"""Sample logs for each finding, and logs of healthy runs.

The lines are from the issues that each finding names as its source, from the seeds, or from the program's source code.
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
"""The logs that show each finding. In a file, each log follows a line with two percent signs and its source."""
HEALTHY = {path.stem: path.read_text(encoding="utf-8") for path in sorted((LOGS / "healthy").glob("*.txt"))}
ALSO = {
    "nccl-arm": {"watchdog-timeout"},
    "nccl-registered-hang": {"time-limit", "watchdog-timeout"},
    "nccl-network-not-found": {"nccl-tcp"},
    "nccl-nonblocking": {"watchdog-timeout"},
}
"""Other findings that the logs of a finding also show."""
TWO_NODES = "".join(
    f"nid00{node}:9:9 [0] NCCL INFO comm 0x5 rank {node} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    for node in (1, 2)
)

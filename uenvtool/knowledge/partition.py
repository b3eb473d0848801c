"""A Slurm partition and the limits of its jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.knowledge.bind import Key

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """The time limit of jobs on at most this number of nodes, in partitions where small jobs get less time."""

    nodes: int
    time: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """The limits of jobs in a partition. A limit that is 0 or empty is not known.

    gpus: 0 if the nodes have no GPUs, and None if no limit is known.
    """

    name: Key
    nodes: int = 0
    time: str = ""
    bins: tuple[Bin, ...] = ()
    node_minutes: int = 0
    gpus: int | None = None
    default: bool = False
    uarch: str = ""
    reason: str = ""
    source: str
    position: Position

    def minutes(self, nodes: int) -> float:
        """Return the time limit in minutes of a job on this number of nodes, or infinity if no limit is known."""
        time_limit = next((limit.time for limit in self.bins if nodes <= limit.nodes), self.time)
        by_time = minutes(time_limit) if time_limit else float("inf")
        return min(by_time, self.node_minutes // nodes) if self.node_minutes else by_time

    def accepts(self, nodes: int, gpus: int, minutes: float) -> bool:
        """Return whether the partition accepts a job. gpus: the number of GPUs on all nodes together."""
        has_gpus = self.gpus is None or gpus <= self.gpus
        return (not self.nodes or nodes <= self.nodes) and has_gpus and minutes <= self.minutes(nodes)

    @property
    def limits(self) -> str:
        """Return the limits as a text, which is empty if no limit is known."""
        of_bins = [f"{limit.time} on at most {limit.nodes} nodes" for limit in self.bins]
        parts = [
            "nodes without GPUs" if self.gpus == 0 else f"{self.gpus} GPUs" if self.gpus else "",
            f"{self.nodes} node{'s' if self.nodes > 1 else ''}" if self.nodes else "",
            f"{self.node_minutes} node-minutes" if self.node_minutes else "",
            ", ".join(filter(None, (self.time, *of_bins))),
        ]
        return ", ".join(filter(None, parts))


def minutes(time: str) -> float:
    """Return a time limit of sbatch in whole minutes. An unlimited time is infinite.

    Seconds are rounded up, as Slurm does (sbatch(1)). Raises ValueError if the text is not a time limit.
    """
    if time.lower() in ("unlimited", "infinite"):
        return float("inf")
    match = _TIME.fullmatch(time)
    if match is None:
        raise ValueError(f"{time!r} is not a valid time limit for sbatch")
    days, *numbers = (int(part or 0) for part in match.group("days", "first", "second", "third"))
    has_hours = match["days"] or match["third"]  # days-hours:minutes:seconds, else minutes:seconds
    hours, minutes, seconds = numbers if has_hours else [0, *numbers[:2]]
    seconds += ((days * 24 + hours) * 60 + minutes) * 60
    return -(-seconds // 60) or float("inf")


def time_text(minutes: float) -> str:
    """Return whole minutes as a time limit for sbatch."""
    days, rest = divmod(int(minutes), 24 * 60)
    hours, left = divmod(rest, 60)
    return f"{days}-{hours:02}:{left:02}:00" if days > 1 else f"{days * 24 + hours:02}:{left:02}:00"

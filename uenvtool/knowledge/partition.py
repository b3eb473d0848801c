"""A partition of Slurm, and the most that a job may have in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.knowledge.bind import Key

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """The time of jobs of at most so many nodes, where small ones get less."""

    nodes: int
    time: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """The most that a job may have in a partition; 0 or empty: no limit is known.

    time: as sbatch takes it. bins: of jobs that get less, the smallest first. node_minutes: nodes times minutes. gpus:
    of a job; 0 if its nodes have none, None if no limit is known. default: Slurm takes it where a job names none.
    uarch: its node type, if it is not the system's first.
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
        """Return how long a job of so many nodes may run, in minutes; infinite if no limit is known."""
        of_nodes = next((one.time for one in self.bins if nodes <= one.nodes), self.time)
        by_time = minutes(of_nodes) if of_nodes else float("inf")
        return min(by_time, self.node_minutes // nodes) if self.node_minutes else by_time

    def takes(self, nodes: int, gpus: int, wanted: float) -> bool:
        """Tell if it takes a job of so many nodes, GPUs (of all nodes) and minutes."""
        has_gpus = self.gpus is None or gpus <= self.gpus
        return (not self.nodes or nodes <= self.nodes) and has_gpus and wanted <= self.minutes(nodes)

    @property
    def limits(self) -> str:
        """Return its limits in words; empty if there are none."""
        of_bins = [f"{one.time} on at most {one.nodes} nodes" for one in self.bins]
        parts = [
            "nodes without GPUs" if self.gpus == 0 else f"{self.gpus} GPUs" if self.gpus else "",
            f"{self.nodes} node{'s' if self.nodes > 1 else ''}" if self.nodes else "",
            f"{self.node_minutes} node-minutes" if self.node_minutes else "",
            ", ".join(filter(None, (self.time, *of_bins))),
        ]
        return ", ".join(filter(None, parts))


def minutes(time: str) -> float:
    """Return the minutes of a time limit as Slurm counts them, whole and rounded up; infinite for none (sbatch(1)).

    Raises ValueError for a text that is no time.
    """
    if time.lower() in ("unlimited", "infinite"):
        return float("inf")
    found = _TIME.fullmatch(time)
    if found is None:
        raise ValueError(f"{time!r} is no time of sbatch")
    days, *numbers = (int(part or 0) for part in found.group("days", "first", "second", "third"))
    has_hours = found["days"] or found["third"]  # days-hours:minutes:seconds, else minutes:seconds
    hours, minutes, seconds = numbers if has_hours else [0, *numbers[:2]]
    seconds += ((days * 24 + hours) * 60 + minutes) * 60
    return -(-seconds // 60) or float("inf")


def time_text(minutes: float) -> str:
    """Return whole minutes as a time limit of sbatch."""
    days, rest = divmod(int(minutes), 24 * 60)
    hours, left = divmod(rest, 60)
    return f"{days}-{hours:02}:{left:02}:00" if days > 1 else f"{days * 24 + hours:02}:{left:02}:00"

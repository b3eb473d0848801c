"""The matches in logs, combined so that a finding on 4,000 ranks is one sighting with its nodes and ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from uenvtool.doctor.log.classifier import INFORMATION, LineClassifier
from uenvtool.doctor.log.tail import Tail
from uenvtool.doctor.network import Rows
from uenvtool.doctor.nodes import numbers_of

MOST_NAMES = 100_000
"""The maximum number of nodes or ranks that are kept per finding."""
MOST_LINES = 20_000
"""The maximum number of lines that are examined per finding."""
MOST_DETAILS = 8
MOST_RUNS = 100
"""The maximum number of earlier runs of a log whose matches are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstLine:
    """The first line that shows a finding, its time, and the lines around it.

    place: FILE:LINE.
    order: the numbers of the log and the line; for a traceback, the line of the exception.
    fix, command: the fix for this kind of line, if it has its own.
    """

    place: str = ""
    order: tuple[int, int] = (0, 0)
    text: str = ""
    detail: str = ""
    node: str = ""
    rank: int | None = None
    moment: str = ""
    around: Tail | None = None
    fix: str = ""
    command: str = ""


@dataclass(slots=True)
class Sighting:
    """The lines that match one finding: their number, their nodes, ranks and details, and their worst level.

    last: the offset of the last line in each log.
    named: the total number of ranks that the lines named, with repetitions.
    """

    first: FirstLine = field(default_factory=FirstLine)
    count: int = 0
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    details: dict[str, int] = field(default_factory=dict)
    level: int = INFORMATION
    last: dict[int, int] = field(default_factory=dict)
    named: int = 0

    @property
    def is_full(self) -> bool:
        return self.count >= MOST_LINES or self.named >= 10 * MOST_NAMES

    def is_news(self, groups: Mapping[str, str | None], moment: str) -> bool:
        """Return whether a line should replace the first line, because it adds a detail or has an earlier time."""
        if not self.count or (groups.get("detail") and not self.details):
            return True
        has_more = bool(groups.get("detail")) or not self.details
        return has_more and bool(moment) and len(moment) == len(self.first.moment) and moment < self.first.moment

    def add(self, node: str, rank: int | None, groups: Mapping[str, str | None], level: int) -> None:
        self.count += 1
        self.level = min(self.level, level)
        node = groups.get("node") or node
        if node and len(self.nodes) < MOST_NAMES:
            self.nodes.add(node)
        ranks = groups.get("ranks") or groups.get("rank") or ""
        named = set(islice(numbers_of(ranks), MOST_NAMES)) or ({rank} if rank is not None else set())
        self.ranks |= named
        self.named += len(named)
        detail = groups.get("detail")
        if detail and (detail in self.details or len(self.details) < MOST_DETAILS):
            self.details[detail] = self.details.get(detail, 0) + 1

    def merge(self, other: Sighting) -> None:
        """Add the lines that match the finding in another log."""
        if self.is_news({"detail": next(iter(other.details), None)}, other.first.moment):
            self.first = other.first
        self.count += other.count
        self.nodes |= other.nodes
        self.ranks |= other.ranks
        self.level = min(self.level, other.level)
        self.last |= other.last
        self.named += other.named
        for detail, count in other.details.items():
            if detail in self.details or len(self.details) < MOST_DETAILS:
                self.details[detail] = self.details.get(detail, 0) + count


@dataclass(slots=True)
class Sightings:
    """All matches in the last run of each log.

    findings: the sightings, by finding ID.
    caught: the sightings of errors that the program caught, by finding ID.
    earlier: the matches of the earlier runs in the logs.
    offset: the offset of the line with which the run began, if it is not the first run.
    facts: the values of each fact, with the nodes that have each value.
    collectives: the number of times that each collective did not finish.
    progress: by group, the number of the last collective that each rank began.
    variables: the variables that NCCL reported as set.
    hosts: the nodes that printed a matching line.
    refuted: the IDs of the findings that a `missing` line refutes.
    logs, lines: the number of logs and lines that were read.
    tails: the end of each log, by the number of the log.
    unread: the reasons why logs could not be read completely.
    settled: the numbers of the texts that can add no information.
    printed: the numbers of the texts that each NCCL process printed.
    """

    classifier: LineClassifier
    findings: defaultdict[str, Sighting] = field(default_factory=lambda: defaultdict(Sighting))
    caught: defaultdict[str, Sighting] = field(default_factory=lambda: defaultdict(Sighting))
    earlier: list[Sightings] = field(default_factory=list)
    offset: int = 0
    facts: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    collectives: dict[str, int] = field(default_factory=dict)
    progress: dict[str, dict[int, int]] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    variables: dict[str, str] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    refuted: set[str] = field(default_factory=set)
    logs: int = 0
    lines: int = 0
    tails: dict[int, Tail] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)
    printed: set[tuple[int, bytes]] = field(default_factory=set)

    def fact(self, name: str, value: str, *nodes: str) -> None:
        values = self.facts.setdefault(name, {})
        if value in values or len(values) < MOST_DETAILS:
            known = values.setdefault(value, set())
            if len(known) < MOST_NAMES:
                known.update(filter(None, nodes))

    def merge(self, other: Sightings) -> None:
        """Add the matches of another log, or of a later part of the same log."""
        for name, sighting in other.findings.items():
            self.findings[name].merge(sighting)
        for name, sighting in other.caught.items():
            self.caught[name].merge(sighting)
        for name, values in other.facts.items():
            for value, nodes in values.items():
                self.fact(name, value, *nodes)
        for name, count in other.collectives.items():
            self.collective(name, count)
        for group, ranks in other.progress.items():
            for rank, number in ranks.items():
                self.reached(group, rank, number)
        self.rows.merge(other.rows)
        self.variables |= other.variables
        self.hosts |= other.hosts
        self.refuted |= other.refuted
        self.tails |= other.tails
        self.earlier += other.earlier
        self.unread += other.unread
        self.logs, self.lines = max(self.logs, other.logs), self.lines + other.lines

    def numbers(self, *facts: str) -> Iterator[int]:
        return (int(value) for name in facts for value in self.facts.get(name, ()) if value.isdecimal())

    def reached(self, group: str, rank: int, number: int) -> None:
        """Record that a rank of a group began a collective."""
        if group in self.progress or len(self.progress) < MOST_DETAILS:
            ranks = self.progress.setdefault(group, {})
            if rank in ranks or len(ranks) < MOST_NAMES:
                ranks[rank] = max(number, ranks.get(rank, 0))

    def behind(self) -> list[int]:
        """Return the ranks that began fewer collectives than other ranks, in the first group that has such ranks."""
        for ranks in self.progress.values():
            last = max(ranks.values())
            late = [rank for rank, number in ranks.items() if number < last]
            if late:
                return late
        return []

    def collective(self, name: str, count: int = 1) -> None:
        if name in self.collectives or len(self.collectives) < MOST_DETAILS:
            self.collectives[name] = self.collectives.get(name, 0) + count

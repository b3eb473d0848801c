"""What was seen in a log, added up: a finding on 4,000 ranks is one, with its nodes and ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from uenvtool.doctor.log.tail import Tail
from uenvtool.doctor.log.words import INFORMATION, Words
from uenvtool.doctor.network import Rows
from uenvtool.doctor.nodes import numbers_of

MOST_NAMES = 100_000
"""So many nodes or ranks are kept of one finding."""
MOST_LINES = 20_000
"""So many lines of a finding are looked at."""
MOST_DETAILS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstLine:
    """The line that shows a finding first.

    order: the number of its log and of the line, of a traceback that of its exception. moment: what it says of the
    time. around: what stands beside it.
    """

    place: str = ""
    order: tuple[int, int] = (0, 0)
    text: str = ""
    detail: str = ""
    node: str = ""
    rank: int | None = None
    moment: str = ""
    around: Tail | None = None


@dataclass(slots=True)
class Sighting:
    """A finding in logs: its first line, and of all of them how many, and what they say together.

    level: the worst one. last: where the last line of each log begins. named: how many ranks its lines named.
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
        """Tell if no more lines of it are looked at."""
        return self.count >= MOST_LINES or self.named >= 10 * MOST_NAMES

    def is_news(self, groups: Mapping[str, str | None], moment: str) -> bool:
        """Tell if a line is to be the first: none was yet, none with a detail, or it is the earlier."""
        if not self.count or (groups.get("detail") and not self.details):
            return True
        has_more = bool(groups.get("detail")) or not self.details
        return has_more and bool(moment) and len(moment) == len(self.first.moment) and moment < self.first.moment

    def add(self, node: str, rank: int | None, groups: Mapping[str, str | None], level: int) -> None:
        """Count one more line."""
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


@dataclass(slots=True)
class Sightings:
    """Everything that was seen: findings by id, the values of facts with the nodes that have each, and who is behind.

    collectives: how often each did not end. progress: the last collective that each rank of a group began. rows: of
    tests of the network. variables: that NCCL says were set. hosts: the nodes that printed a line. refuted: the ids of
    findings whose `missing` lines were seen.
    logs, lines: how many were read. tails: the end of each. unread: why a log could not be read to its end. settled,
    printed: the texts that can say nothing new, of all and of one process.
    """

    words: Words
    findings: defaultdict[str, Sighting] = field(default_factory=lambda: defaultdict(Sighting))
    facts: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    collectives: dict[str, int] = field(default_factory=dict)
    progress: dict[str, dict[int, int]] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    variables: dict[str, str] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    refuted: set[str] = field(default_factory=set)
    logs: int = 0
    lines: int = 0
    tails: list[Tail] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)
    printed: set[tuple[int, bytes]] = field(default_factory=set)

    def fact(self, name: str, value: str, node: str) -> None:
        """Note the value of a fact on a node."""
        values = self.facts.setdefault(name, {})
        if value in values or len(values) < MOST_DETAILS:
            nodes = values.setdefault(value, set())
            if node and len(nodes) < MOST_NAMES:
                nodes.add(node)

    def numbers(self, *facts: str) -> Iterator[int]:
        """Yield the values of facts that are numbers."""
        return (int(value) for name in facts for value in self.facts.get(name, ()) if value.isdecimal())

    def reached(self, group: str, rank: int, number: int) -> None:
        """Note how far a rank of a group is; the largest number counts."""
        if group in self.progress or len(self.progress) < MOST_DETAILS:
            ranks = self.progress.setdefault(group, {})
            if rank in ranks or len(ranks) < MOST_NAMES:
                ranks[rank] = max(number, ranks.get(rank, 0))

    def behind(self) -> list[int]:
        """Return the ranks that began fewer collectives than others of their group; of the first group with such."""
        for ranks in self.progress.values():
            last = max(ranks.values())
            late = [rank for rank, number in ranks.items() if number < last]
            if late:
                return late
        return []

    def collective(self, name: str) -> None:
        """Note a collective that did not end."""
        if name in self.collectives or len(self.collectives) < MOST_DETAILS:
            self.collectives[name] = self.collectives.get(name, 0) + 1

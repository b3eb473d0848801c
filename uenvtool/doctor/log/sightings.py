"""What was seen in a log, added up: a finding on 4,000 ranks is one, with its nodes and ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from uenvtool.doctor.log.bandwidth import Rows
from uenvtool.doctor.log.tail import ENOUGH, Tail
from uenvtool.doctor.log.words import INFORMATION, Words
from uenvtool.doctor.nodes import numbers_of

MOST_NAMES = 100_000
"""So many nodes or ranks are kept of one finding."""
MOST_DETAILS = 8


@dataclass(slots=True)
class Sighting:
    """A finding in logs.

    place, order, text, detail, node, rank, moment: of the line that shows it first; order is the number of its log and
    of its line, moment what the line says of the time. around: what stands beside that line. Then of all lines: how
    many, from which nodes and ranks, which details they give, the worst level, and where the last one of each
    log begins.
    """

    place: str = ""
    order: tuple[int, int] = (0, 0)
    text: str = ""
    detail: str = ""
    node: str = ""
    rank: int | None = None
    moment: str = ""
    around: Tail | None = None
    count: int = 0
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    details: dict[str, int] = field(default_factory=dict)
    level: int = INFORMATION
    last: dict[int, int] = field(default_factory=dict)

    def add(self, node: str, rank: int | None, groups: Mapping[str, str | None], level: int) -> None:
        """Count one more line."""
        self.count += 1
        self.level = min(self.level, level)
        node = groups.get("node") or node
        if node and len(self.nodes) < MOST_NAMES:
            self.nodes.add(node)
        if len(self.ranks) < MOST_NAMES:
            named = set(numbers_of(groups.get("ranks") or groups.get("rank") or ""))
            self.ranks |= named or ({rank} if rank is not None else set())
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

    def is_news(self, name: str, groups: Mapping[str, str | None], moment: str) -> bool:
        """Tell if a line is the first that shows a finding: none was yet, none with a detail, or it is the earlier."""
        known = self.findings[name]
        if not known.count or (groups.get("detail") and not known.details):
            return True
        has_more = bool(groups.get("detail")) or not known.details
        return has_more and bool(moment) and len(moment) == len(known.moment) and moment < known.moment

    def set_first(self, name: str, first: Sighting) -> None:
        """Take a line as the first that shows a finding; what others said of it stays."""
        old = self.findings[name]
        self.findings[name] = replace(
            first,
            count=old.count,
            nodes=old.nodes,
            ranks=old.ranks,
            details=old.details,
            level=old.level,
            last=old.last,
        )

    def went_on(self, name: str, steps: int = ENOUGH) -> bool:
        """Tell if the run made so many steps behind the last sign of a finding, in each log that has one."""
        return all(self.tails[log - 1].progress_after(at) >= steps for log, at in self.findings[name].last.items())

    def goes_on(self, name: str) -> bool:
        """Tell if many lines of any kind stand behind the last sign of a finding, in each log that has one."""
        return all(self.tails[log - 1].goes_on_after(at) for log, at in self.findings[name].last.items())

    def ends_well(self, name: str) -> bool:
        """Tell if nothing behind the last sign of a finding speaks of a failure, in each log that has one."""
        return not any(self.tails[log - 1].last_words(offset) for log, offset in self.findings[name].last.items())

    def fact(self, name: str, value: str, node: str) -> None:
        """Note the value of a fact on a node."""
        values = self.facts.setdefault(name, {})
        if value in values or len(values) < MOST_DETAILS:
            nodes = values.setdefault(value, set())
            if node and len(nodes) < MOST_NAMES:
                nodes.add(node)

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

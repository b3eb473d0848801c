"""What was seen in a log, added up: a finding on 4,000 ranks is one, with its nodes and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.doctor.nodes import numbers_of

MOST_NAMES = 100_000
"""So many nodes or ranks are kept of one finding."""
MOST_DETAILS = 8


@dataclass(slots=True)
class Sighting:
    """How often a line was seen, where first, on which nodes and ranks, and with which details, each counted."""

    place: str = ""
    line: int = 0
    text: str = ""
    count: int = 0
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    details: dict[str, int] = field(default_factory=dict)

    def add(self, node: str, rank: int | None, groups: Mapping[str, str | None]) -> None:
        """Count one more line."""
        self.count += 1
        node = groups.get("node") or node
        if node and len(self.nodes) < MOST_NAMES:
            self.nodes.add(node)
        if len(self.ranks) < MOST_NAMES:
            self.ranks.update(numbers_of(groups.get("ranks") or groups.get("rank") or ""))
            if rank is not None and not groups.get("ranks") and not groups.get("rank"):
                self.ranks.add(rank)
        detail = groups.get("detail")
        if detail and (detail in self.details or len(self.details) < MOST_DETAILS):
            self.details[detail] = self.details.get(detail, 0) + 1


@dataclass(slots=True)
class Progress:
    """How far each rank of a process group came: rank to the number of the last collective that it began."""

    by_group: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, group: str, rank: int, number: int) -> None:
        """Note how far a rank is; the largest number counts."""
        ranks = self.by_group.setdefault(group, {}) if len(self.by_group) < MOST_DETAILS else self.by_group.get(group)
        if ranks is not None and (rank in ranks or len(ranks) < MOST_NAMES):
            ranks[rank] = max(number, ranks.get(rank, 0))

    def behind(self) -> list[int]:
        """The ranks that began fewer collectives than others of their group; of the first group with such ranks."""
        for ranks in self.by_group.values():
            late = sorted(rank for rank, number in ranks.items() if number < max(ranks.values()))
            if late:
                return late
        return []


@dataclass(slots=True)
class Sightings:
    """Everything that was seen: findings by id, the values of facts with the nodes that have each, and who is behind.

    collectives: how often each did not end. hosts: the nodes that printed a line. refuted: the ids of findings whose
    `missing` lines were seen. bytes: how much was read. unread: why a log could not be read to its end.
    """

    findings: dict[str, Sighting] = field(default_factory=dict)
    facts: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    collectives: dict[str, int] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    hosts: set[str] = field(default_factory=set)
    refuted: set[str] = field(default_factory=set)
    bytes: int = 0
    unread: list[str] = field(default_factory=list)

    def fact(self, name: str, value: str, node: str) -> None:
        """Note the value of a fact on a node."""
        values = self.facts.setdefault(name, {})
        if value in values or len(values) < MOST_DETAILS:
            nodes = values.setdefault(value, set())
            if node and len(nodes) < MOST_NAMES:
                nodes.add(node)

    def collective(self, name: str) -> None:
        """Note a collective that did not end."""
        if name in self.collectives or len(self.collectives) < MOST_DETAILS:
            self.collectives[name] = self.collectives.get(name, 0) + 1

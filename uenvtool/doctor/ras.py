"""Reads what NCCL's RAS answers of a job that runs, asked twice: who is behind is behind in both."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uenvtool.core.value import value_class
from uenvtool.doctor.finding import Finding
from uenvtool.doctor.nodes import ranges
from uenvtool.knowledge.finding import KnownFinding

AGAIN = "asked again\n"
"""What scripts/ras.sh prints between the two answers."""
_SECTION = re.compile(r"^  Communicator ranks have different (\w+) operation counts\n((?:  .+\n)+)", re.MULTILINE)
_ROW = re.compile(
    r"^  (?:(?P<count>\d+) ranks have|Rank (?P<rank>\d+) has) "
    r"(?:launched up to operation (?P<number>\d+)|not launched any operations)(?:.* on node (?P<node>\S+))?"
    r"(?P<named>(?:\n  Rank \d+ -- .+)*)",
    re.MULTILINE,
)
_NAMED = re.compile(r"Rank (\d+) -- (?:.* on node (\S+))?")


@value_class
class _Row:
    """Ranks of a communicator that launched as many operations. count: how many; ranks: those that NCCL names."""

    number: int
    count: int
    ranks: frozenset[int]
    nodes: frozenset[str]

    def __str__(self) -> str:
        who = f"rank {ranges(self.ranks)}" if self.ranks else f"{self.count} ranks"
        on = f" on {', '.join(sorted(self.nodes))}" if self.nodes else ""
        return f"{who}{on} launched {self.number}"


def behind(answers: str, known: KnownFinding) -> Iterator[Finding]:
    """Yield the ranks that launched fewer collectives than others, if they launched no more between both answers.

    answers: as scripts/ras.sh prints them. One that came between two steps of a job that goes on differs a little.
    """
    first, _, second = answers.partition(AGAIN)
    before = {(collective, rows[0]) for collective, rows in _sections(first)}
    for collective, rows in _sections(second):
        if (collective, rows[0]) in before:
            detail = f"{collective}: {', '.join(map(str, rows))}"
            yield Finding(known=known, detail=detail, nodes=rows[0].nodes, ranks=rows[0].ranks)


def _sections(answer: str) -> Iterator[tuple[str, list[_Row]]]:
    """Yield each collective that a communicator's ranks launched unequally often, with its rows, the least first.

    The form is that of rasClientRunComms in NCCL 2.30.7, src/ras/client_support.cc.
    """
    for collective, text in _SECTION.findall(answer):
        rows = sorted(map(_row, _ROW.finditer(text)), key=lambda row: row.number)
        if rows:
            yield collective, rows


def _row(match: re.Match[str]) -> _Row:
    named = [(match["rank"], match["node"])] if match["rank"] else _NAMED.findall(match["named"])
    return _Row(
        number=int(match["number"] or 0),
        count=int(match["count"] or 1),
        ranks=frozenset(int(rank) for rank, _ in named),
        nodes=frozenset(node for _, node in named if node),
    )

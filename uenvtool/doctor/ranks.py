"""What the ranks of a job saw, as one: the same once, what differs with its nodes, who did not report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from uenvtool.doctor.checks import Fault
from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.nodes import folded, ranges
from uenvtool.knowledge.finding import KnownFinding

SILENT, DIFFERS = "rank-silent", "rank-differs"
MOST_DETAILS = 12
"""A finding with more different details is one with a few of them."""
MOST_DIGITS = 6
"""Of the number of a rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What one rank saw. values: what has to be the same on every rank. unseen: what it could not look at."""

    rank: int
    node: str
    faults: tuple[Fault, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """As data for its file."""
        return {
            "rank": self.rank,
            "node": self.node,
            "faults": [[fault.id, fault.detail, list(fault.commands)] for fault in self.faults],
            "values": dict(self.values),
            "unseen": list(self.unseen),
        }


def parsed_report(data: Any) -> RankReport | None:
    """The report in a file's data; None if it is none."""
    try:
        return RankReport(
            rank=int(str(data["rank"])[:MOST_DIGITS]),
            node=str(data["node"]),
            faults=tuple(Fault(str(name), str(detail), tuple(map(str, more))) for name, detail, more in data["faults"]),
            values={str(name): str(value) for name, value in data["values"].items()},
            unseen=tuple(map(str, data["unseen"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def together(
    reports: Sequence[RankReport], missing: Mapping[int, str], known: Mapping[str, KnownFinding]
) -> Examination:
    """What all ranks saw. missing: the ranks that did not report, each with its node, if that is known."""
    everywhere = len(reports)
    findings = [*_silent(missing, known), *_differing(reports, known), *_found(reports, known, everywhere)]
    unseen = Counter(line for report in reports for line in report.unseen)
    facts = [("ranks", f"{everywhere} of {everywhere + len(missing)} on {_nodes(reports)}")]
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=tuple(facts if reports else ()),
        unseen=tuple(line for line, count in unseen.items() if count == everywhere),
    )


def _silent(missing: Mapping[int, str], known: Mapping[str, KnownFinding]) -> Iterator[Finding]:
    if missing:
        nodes = frozenset(filter(None, missing.values()))
        yield Finding(known=known[SILENT], detail=f"rank {ranges(missing)}", nodes=nodes, ranks=frozenset(missing))


def _differing(reports: Sequence[RankReport], known: Mapping[str, KnownFinding]) -> Iterator[Finding]:
    """Each value that not all ranks have: the fewer ranks are named."""
    by_name: dict[str, dict[str, list[RankReport]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for name, value in report.values.items():
            by_name[name][value].append(report)
    for name, by_value in sorted(by_name.items()):
        if sum(map(len, by_value.values())) < len(reports):
            by_value["unset"] += [report for report in reports if name not in report.values]
        if len(by_value) > 1:
            usual = max(by_value, key=lambda value: len(by_value[value]))
            others = [value for value in by_value if value != usual]
            shown = ", ".join(f"{value} on {_nodes(by_value[value])}" for value in others[:3])
            odd = [report for value in others for report in by_value[value]]
            yield Finding(
                known=known[DIFFERS],
                detail=f"{name} is {shown}{' and more' if len(others) > 3 else ''}; elsewhere {usual}",
                ranks=frozenset(report.rank for report in odd),
            )


def _nodes(reports: Iterable[RankReport]) -> str:
    return folded({report.node for report in reports})


def _found(reports: Sequence[RankReport], known: Mapping[str, KnownFinding], everywhere: int) -> Iterator[Finding]:
    """Each finding once, with the nodes that have it if not all have."""
    by_id: dict[str, dict[str, list[tuple[RankReport, Fault]]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for fault in report.faults:
            if fault.id in known:
                by_id[fault.id][fault.detail].append((report, fault))
    for name, by_detail in by_id.items():
        groups: Iterable[tuple[str, list[tuple[RankReport, Fault]]]] = by_detail.items()
        if len(by_detail) > MOST_DETAILS:
            detail = f"{', '.join(list(by_detail)[:2])} and {len(by_detail) - 2} more"
            groups = [(detail, [pair for pairs in by_detail.values() for pair in pairs])]
        for detail, pairs in groups:
            ranks = frozenset(report.rank for report, _ in pairs)
            nodes = frozenset(report.node for report, _ in pairs) if len(ranks) < everywhere else frozenset()
            yield Finding(
                known=known[name],
                detail=detail,
                commands=pairs[0][1].commands,
                count=len(pairs),
                nodes=nodes,
                ranks=ranks,
            )

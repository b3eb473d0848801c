"""A finding of doctor, wherever it comes from: a log, a shell, the ranks of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from uenvtool.doctor.network import Run
from uenvtool.doctor.nodes import brief_nodes, brief_ranks, folded, ranges
from uenvtool.knowledge.finding import SEVERITIES, KnownFinding
from uenvtool.knowledge.secrets import without_secrets


@dataclass(frozen=True, slots=True)
class Fault:
    """What a check found: the id of what is known of it, what was seen, and what mends it here."""

    id: str
    detail: str = ""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What is wrong here.

    known: what is known of it. detail: what was seen, such as a value. commands: what mends it here, ready to
    paste; none: the known command. place: FILE:LINE of a log. text: the line there. count: how many lines say it.
    nodes, ranks: where it was seen; none: everywhere, or not known.
    """

    known: KnownFinding
    detail: str = ""
    commands: tuple[str, ...] = ()
    place: str = ""
    text: str = ""
    count: int = 1
    nodes: frozenset[str] = field(default_factory=frozenset)
    ranks: frozenset[int] = field(default_factory=frozenset)

    @property
    def where(self) -> str:
        """The nodes, else the ranks, as lists; nothing where the detail says so already."""
        ranks = f"rank {brief_ranks(self.ranks)}" if self.ranks else ""
        text = f"on {brief_nodes(self.nodes)}" if self.nodes else ranks
        is_told = re.search(rf"{re.escape(text)}(?![\w,-])", self.detail)
        return "" if is_told else text if self.nodes else f"on {text}"

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        known, own = self.known, ("detail", "place", "text")
        return {
            "id": known.id,
            **{name: getattr(known, name) for name in ("severity", "what", "why", "fix", "source")},
            "page": known.page or None,
            **{name: getattr(self, name) or None for name in own},
            "commands": list(self.commands),
            "count": self.count,
            "nodes": folded(self.nodes) or None,
            "ranks": ranges(self.ranks) or None,
        }


def as_findings(found: Iterable[Fault], known: Mapping[str, KnownFinding]) -> list[Finding]:
    """Return faults with what is known of each."""
    return [Finding(known=known[fault.id], detail=fault.detail, commands=fault.commands) for fault in found]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by severity; of one severity in the order that they have."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.known.severity))


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """What came of looking: the findings, what is there as name and value, how much was read, and what was skipped.

    runs: of tests of the network. quotes: further lines of a log that tell of its failure, each with its place.
    """

    findings: tuple[Finding, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    looked_at: str = ""
    unseen: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    quotes: tuple[tuple[str, str], ...] = ()


def cleaned(seen: Examination) -> Examination:
    """Return what was seen without secrets: everything that doctor shows or writes comes by here."""
    return replace(
        seen,
        findings=tuple(
            replace(
                one,
                detail=without_secrets(one.detail),
                text=without_secrets(one.text),
                commands=tuple(map(without_secrets, one.commands)),
            )
            for one in seen.findings
        ),
        facts=tuple((name, without_secrets(value)) for name, value in seen.facts),
        unseen=tuple(map(without_secrets, seen.unseen)),
        runs=tuple(
            replace(
                run,
                image=without_secrets(run.image),
                facts={name: without_secrets(value) for name, value in run.facts.items()},
                variables={name: without_secrets(value) for name, value in run.variables.items()},
            )
            for run in seen.runs
        ),
        quotes=tuple((place, without_secrets(text)) for place, text in seen.quotes),
    )


def joined(parts: Iterable[Examination]) -> Examination:
    """Return what several examinations say together."""
    parts = list(parts)
    return Examination(
        findings=tuple(worst_first(finding for part in parts for finding in part.findings)),
        facts=tuple(fact for part in parts for fact in part.facts),
        looked_at=", ".join(part.looked_at for part in parts if part.looked_at),
        unseen=tuple(line for part in parts for line in part.unseen),
        runs=tuple(run for part in parts for run in part.runs),
        quotes=tuple(line for part in parts for line in part.quotes),
    )

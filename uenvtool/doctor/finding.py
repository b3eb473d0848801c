"""The findings of doctor, from a log, a shell, or the ranks of a job."""

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
    """The result of a check in a shell.

    id: the ID of the finding in knowledge/findings.
    detail: the observation, such as a value.
    commands: the commands that fix the problem here.
    """

    id: str
    detail: str = ""
    commands: tuple[str, ...] = ()


def no_answer(program: str) -> Fault:
    """Return the fault of a program that did not answer a query in time."""
    return Fault("no-answer", f"{program} does not answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A known problem that was observed.

    known: the entry in knowledge/findings.
    detail: the observation, such as a value.
    commands: the commands that fix the problem here; empty means the known command.
    place: FILE:LINE in a log.
    text: the text of this line.
    count: the number of lines that show the problem.
    nodes, ranks: the nodes and ranks that show the problem; empty if all of them do or if they are unknown.
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
        """Return the nodes, or else the ranks, as text, or an empty string if the detail already contains them."""
        ranks = f"rank {brief_ranks(self.ranks)}" if self.ranks else ""
        text = f"on {brief_nodes(self.nodes)}" if self.nodes else ranks
        is_in_detail = re.search(rf"{re.escape(text)}(?![\w,-])", self.detail)
        return "" if is_in_detail else text if self.nodes else f"on {text}"

    def data(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        known, observed = self.known, ("detail", "place", "text")
        return {
            "id": known.id,
            **{name: getattr(known, name) for name in ("severity", "what", "why", "fix", "source")},
            "page": known.page or None,
            **{name: getattr(self, name) or None for name in observed},
            "commands": list(self.commands),
            "count": self.count,
            "nodes": folded(self.nodes) or None,
            "ranks": ranges(self.ranks) or None,
        }


def as_findings(faults: Iterable[Fault], known: Mapping[str, KnownFinding]) -> list[Finding]:
    """Return the faults as findings with their entries in knowledge/findings."""
    return [Finding(known=known[fault.id], detail=fault.detail, commands=fault.commands) for fault in faults]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings sorted by severity, otherwise in their original order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.known.severity))


@dataclass(frozen=True, kw_only=True, slots=True)
class Examination:
    """The result of an examination.

    facts: observed properties as pairs of name and value.
    looked_at: the amount of input, such as the number of lines.
    unseen: the checks that were skipped, with the reason.
    runs: the network tests.
    quotes: more lines of a log that describe its failure, each after its FILE:LINE.
    """

    findings: tuple[Finding, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    looked_at: str = ""
    unseen: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    quotes: tuple[tuple[str, str], ...] = ()


def cleaned(examination: Examination) -> Examination:
    """Return an examination without secrets. All output of doctor must pass through this function."""
    return replace(
        examination,
        findings=tuple(
            replace(
                finding,
                detail=without_secrets(finding.detail),
                text=without_secrets(finding.text),
                commands=tuple(map(without_secrets, finding.commands)),
            )
            for finding in examination.findings
        ),
        facts=tuple((name, without_secrets(value)) for name, value in examination.facts),
        unseen=tuple(map(without_secrets, examination.unseen)),
        runs=tuple(
            replace(
                run,
                image=without_secrets(run.image),
                facts={name: without_secrets(value) for name, value in run.facts.items()},
                variables={name: without_secrets(value) for name, value in run.variables.items()},
            )
            for run in examination.runs
        ),
        quotes=tuple((place, without_secrets(text)) for place, text in examination.quotes),
    )


def joined(parts: Iterable[Examination]) -> Examination:
    """Return several examinations as one."""
    parts = list(parts)
    return Examination(
        findings=tuple(worst_first(finding for part in parts for finding in part.findings)),
        facts=tuple(fact for part in parts for fact in part.facts),
        looked_at=", ".join(part.looked_at for part in parts if part.looked_at),
        unseen=tuple(line for part in parts for line in part.unseen),
        runs=tuple(run for part in parts for run in part.runs),
        quotes=tuple(line for part in parts for line in part.quotes),
    )

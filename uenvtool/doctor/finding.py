"""The findings of doctor and the examination that contains them, in the form that all inputs share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from uenvtool.doctor.network import Run
from uenvtool.doctor.nodes import brief_nodes, brief_ranks, folded, ranges
from uenvtool.knowledge.finding import SEVERITIES, KnownFinding
from uenvtool.knowledge.secrets import without_secrets


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem that a check found: the ID of a finding, the observed value, and commands that fix this case."""

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
    detail: the observation, such as the value of a variable.
    commands: the shell commands that fix this case; empty if the command of the known finding does.
    place, text: the first log line that shows the problem, as FILE:LINE and as text.
    advice: what the log itself advises against the problem.
    count: the number of log lines or ranks that show the problem.
    nodes, ranks: the nodes and ranks that show the problem; empty if all of them do or if they are unknown.
    """

    known: KnownFinding
    detail: str = ""
    commands: tuple[str, ...] = ()
    place: str = ""
    text: str = ""
    advice: str = ""
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
        known, observed = self.known, ("detail", "place", "text", "advice")
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
    """The result of a diagnosis.

    facts: the observed properties, as pairs of name and value.
    looked_at: the amount of input, such as the number of lines.
    unseen: the skipped checks, each with the reason.
    runs: the network tests in a log.
    has_end: whether the log shows how the run ended, or may still grow.
    quotes: the log lines that describe the failure in addition to the findings, as pairs of FILE:LINE and text.
    """

    findings: tuple[Finding, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    looked_at: str = ""
    has_end: bool = True
    unseen: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    quotes: tuple[tuple[str, str], ...] = ()


def cleaned(examination: Examination) -> Examination:
    """Return an examination without secrets. All output of doctor must pass through this function."""
    without: Examination = _cleaned(examination)
    return without


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, tuple):
        return tuple(map(_cleaned, value))
    if isinstance(value, Mapping):
        return {name: _cleaned(item) for name, item in value.items()}
    if isinstance(value, (Examination, Finding, Run)):
        return replace(value, **{each.name: _cleaned(getattr(value, each.name)) for each in fields(value)})
    return value

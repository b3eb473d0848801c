"""The findings of `doctor`: log lines and shell states that show a problem, each with its severity, reason and fix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.bind import Binder, Key, Verbatim
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.kinds import FINDINGS
from uenvtool.knowledge.load import duplicate_id_problems, entries_of_other_files, once_if_shipped, usable_files
from uenvtool.knowledge.locate import Location, locate, page_of
from uenvtool.knowledge.pattern import Pattern, any_of

BROKEN, SLOW, RISK, NOTE = "broken", "slow", "risk", "note"
SEVERITIES = (BROKEN, SLOW, RISK, NOTE)
"""The severities, the worst first. A note is not a problem."""
STALL, STOPPED = "stall", "stopped"
"""The faults of a finding for a network that stalls, and for a run that was stopped from outside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """A line by which doctor recognises a finding or a fact in a log."""

    text: Verbatim
    match: Pattern | None = None
    unless: Pattern | None = None
    near: Pattern | None = None
    not_near: Pattern | None = None
    after: Pattern | None = None
    not_after: Pattern | None = None
    fix: str = ""
    command: str = ""
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """A workaround of the tuning files that fixes a finding. when: A condition over the facts of the log."""

    shorthand: ClassVar[str] = "name"
    name: str
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFinding:
    """One problem that doctor recognises, with its texts for the user."""

    id: Key
    severity: str
    what: str
    why: str
    fix: str
    source: str
    position: Position
    title: str = ""
    command: str = ""
    workaround: Remedy | None = None
    log: tuple[LogLine, ...] = ()
    messages: tuple[Verbatim, ...] = ()
    missing: tuple[LogLine, ...] = ()
    when: Condition = ALWAYS
    hidden_by: tuple[str, ...] = ()
    fallback: bool = False
    fault: Literal["", "node", "stall", "stopped", "passing"] = ""
    ends: bool = False
    state: str = ""

    @property
    def page(self) -> str:
        return page_of(self.id, self.position.file)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFact:
    """A fact about a run, which doctor reads from the log."""

    name: Key
    log: tuple[LogLine, ...]
    label: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingFile:
    """The contents of one file: findings by ID, facts by name, and word lists by meaning (for example, error words)."""

    name: str = ""
    findings: dict[str, KnownFinding] = field(default_factory=dict)
    facts: dict[str, LogFact] = field(default_factory=dict)
    words: dict[str, tuple[Verbatim, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """All findings, facts and words. words: For each meaning, the words of all files in one pattern."""

    findings: dict[str, KnownFinding]
    facts: dict[str, LogFact]
    words: Mapping[str, Pattern]


def load_finding_file(name: str) -> FindingFile:
    """Return the findings in one file, given by name or path. Raises BadInput with all problems.

    Ids that another file also defines and references to unknown findings are problems.
    """
    file = _load(locate(FINDINGS, name))
    others = entries_of_other_files(FINDINGS, file.name, lambda location: _load(location).findings)
    known = {*file.findings, *others}
    hidden_by = [(other, finding) for finding in file.findings.values() for other in finding.hidden_by]
    unknown_ids = [unknown("finding", other, known, each.position) for other, each in hidden_by if other not in known]
    BadInput.raise_any([*duplicate_id_problems(file.findings, others), *unknown_ids])
    return file


def load_findings() -> Known:
    """Return all findings, facts and words. Findings from files in the current directory contain no commands."""
    findings: dict[str, KnownFinding] = {}
    facts: dict[str, LogFact] = {}
    words: dict[str, list[str]] = defaultdict(list)
    for location in usable_files(FINDINGS).values():
        file = _load(location)
        facts.update(file.facts)
        for name, patterns in file.words.items():
            words[name] += patterns
        for name, finding in file.findings.items():
            log = tuple(replace(line, command="") for line in finding.log)
            findings[name] = finding if location.may_act else replace(finding, command="", log=log)
    lists = {name: any_of(patterns) for name, patterns in words.items()}
    return Known(findings, facts, defaultdict(lambda: any_of(()), lists))


@once_if_shipped
def _load(location: Location) -> FindingFile:
    binder = Binder.of(location, FINDINGS)
    file = binder.whole(FindingFile, name=location.name)
    for fact in file.facts.values():
        if not all(line.value or (line.match and "value" in line.match.groups) for line in fact.log):
            hint = "add `value`, or a group (?P<value>...) in `match`"
            binder.problem("a line of this fact gives no value", fact.position, hint)
    binder.finish()
    return file

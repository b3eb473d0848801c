"""What doctor can find: lines of logs and conditions of a shell, each with its severity, reason and fix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.knowledge.bind import Binder, Key, Verbatim
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.kinds import FINDINGS
from uenvtool.knowledge.load import duplicate_id_problems, entries_of_other_files, usable_files
from uenvtool.knowledge.locate import Location, locate, page_of
from uenvtool.knowledge.pattern import Pattern, any_of

BROKEN, SLOW, RISK, NOTE = "broken", "slow", "risk", "note"
SEVERITIES = (BROKEN, SLOW, RISK, NOTE)
"""The worst first. A note is no fault."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """A line that programs print.

    text: what the line contains, and what is searched for. match, unless: what it contains too, or not. near, not_near:
    what it or the lines behind it contain, or not. value: of a fact that the line shows by itself.
    """

    text: Verbatim
    match: Pattern | None = None
    unless: Pattern | None = None
    near: Pattern | None = None
    not_near: Pattern | None = None
    value: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """A workaround of the tuning files that mends a finding, and the condition over the facts of a log for it."""

    shorthand: ClassVar[str] = "name"
    name: str
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFinding:
    """One diagnosis of a log or a shell.

    title: the heading of its page, in the words of a search. severity: one of SEVERITIES. what, why, fix, source: texts
    for the user. command: the shell command that fixes it. workaround: the workaround of the tuning files that fixes
    it. log: the lines that show it; a finding without them comes from a check of doctor. messages: examples of these
    lines, as programs print them. missing: lines that exclude the finding if the log contains one. when: a condition
    over the facts of the log. hidden_by: the findings that cause this one. fallback: shown only if nothing else is
    broken. fault: the cause if it is not the code or its settings (a node, a stall of the network, or a condition that
    passes). ends: it ends a process, whatever other processes print later. state: the state in Slurm of a job that
    ended in this way.
    """

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
    fault: Literal["", "node", "stall", "passing"] = ""
    ends: bool = False
    state: str = ""

    @property
    def page(self) -> str:
        """The address of its page, where the documentation is published."""
        return page_of(self.id, self.position.file)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFact:
    """What a log says of its run. label: its name in the report; empty if it is not shown."""

    name: Key
    log: tuple[LogLine, ...]
    label: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingFile:
    """The findings by id, the facts by name, and the words by what they tell, of one file."""

    name: str = ""
    description: str
    findings: dict[str, KnownFinding] = field(default_factory=dict)
    facts: dict[str, LogFact] = field(default_factory=dict)
    words: dict[str, tuple[Verbatim, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that can be found; words: each list of all files as one pattern."""

    findings: dict[str, KnownFinding]
    facts: dict[str, LogFact]
    words: Mapping[str, Pattern]


def load_finding_file(name: str) -> FindingFile:
    """Return the findings of one file, by its name or path.

    Raises BadInput with every problem found, also for a finding that another file has too, and for one that names
    another that is nowhere.
    """
    file = _load(locate(FINDINGS, name))
    others = entries_of_other_files(FINDINGS, file.name, lambda location: _load(location).findings)
    unknown_ids = _unknown_ids(file.findings.values(), {*file.findings, *others})
    BadInput.raise_any([*duplicate_id_problems(file.findings, others), *unknown_ids])
    return file


def load_findings() -> Known:
    """Return all findings, facts and words; a finding of the current folder has no command to paste."""
    findings: dict[str, KnownFinding] = {}
    facts: dict[str, LogFact] = {}
    words: dict[str, list[str]] = defaultdict(list)
    for location in usable_files(FINDINGS).values():
        file = _load(location)
        facts.update(file.facts)
        for name, patterns in file.words.items():
            words[name] += patterns
        for name, finding in file.findings.items():
            findings[name] = finding if location.may_act else replace(finding, command="")
    lists = {name: any_of(patterns) for name, patterns in words.items()}
    return Known(findings, facts, defaultdict(lambda: any_of(()), lists))


def _unknown_ids(findings: Iterable[KnownFinding], known: Iterable[str]) -> list[Problem]:
    return [
        unknown("finding", other, known, finding.position)
        for finding in findings
        for other in finding.hidden_by
        if other not in known
    ]


def _load(location: Location) -> FindingFile:
    binder = Binder.of(location, FINDINGS)
    file = binder.whole(FindingFile, name=location.name)
    for fact in file.facts.values():
        if not all(line.value or (line.match and "value" in line.match.groups) for line in fact.log):
            hint = "write `value`, or a group (?P<value>...)"
            binder.problem("a line of this fact gives no value", fact.position, hint)
    binder.finish()
    return file

"""What doctor can find: lines of logs and conditions of a shell, each with its severity, reason and fix."""

from __future__ import annotations

import re
from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import ALWAYS, Condition

BROKEN, SLOW, RISK, NOTE = "broken", "slow", "risk", "note"
SEVERITIES = (BROKEN, SLOW, RISK, NOTE)
"""The worst first. A note is no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that programs print.

    text: what the line contains, and what is searched for. match, unless: what it contains too, or not. near, not_near:
    what it or the lines behind it contain, or not. value: of a fact that the line shows by itself.
    """

    text: str
    match: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    near: re.Pattern[str] | None = None
    not_near: re.Pattern[str] | None = None
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFinding:
    """One thing that can be wrong.

    severity: one of SEVERITIES. what, why, fix, source: texts for the user. command: what mends it, ready to
    paste. workaround: the one of the tuning files that mends it. log: the lines that show it; none: a check finds
    it. missing: lines that must not be in that log. when: a condition over the facts of the log. hidden_by: the
    findings that this one follows from. fallback: shown only if nothing else is broken.
    """

    id: str
    severity: str
    what: str
    why: str
    fix: str
    source: str
    position: Position
    command: str = ""
    workaround: str = ""
    log: tuple[LogLine, ...] = ()
    missing: tuple[LogLine, ...] = ()
    when: Condition = ALWAYS
    hidden_by: tuple[str, ...] = ()
    fallback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFact:
    """What a log says of its run. label: its name in the report; empty if it is not shown."""

    name: str
    log: tuple[LogLine, ...]
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingFile:
    """The findings by id and the facts by name of one file."""

    name: str
    description: str
    findings: dict[str, KnownFinding]
    facts: dict[str, LogFact]


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that can be found."""

    findings: dict[str, KnownFinding]
    facts: dict[str, LogFact]

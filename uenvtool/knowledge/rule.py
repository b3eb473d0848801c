"""Rules of the check of batch scripts: where each looks, why it exists, what it costs, and how to mend it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import ALWAYS, Condition

ERROR, WARNING, HINT = "error", "warning", "hint"
LEVELS = (ERROR, WARNING, HINT)
"""The worst first: the job fails or computes something else; it costs time or nodes; advice, shown with --all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A pattern for the parts of a file.

    kind: the kind of part (directive, late, variable, command, last, entry, line). name: matches the whole name.
    value: is found in the text of the part. unlike: is not found there. scope: batch, step, or empty for both.
    """

    kind: str
    name: re.Pattern[str]
    value: re.Pattern[str] | None = None
    unlike: re.Pattern[str] | None = None
    scope: str = ""

    def matches(self, name: str, text: str, scope: str) -> bool:
        """Tell if a part of this kind is one that the rule looks for. A line is searched for the name."""
        found = self.name.search(text) if self.kind == "line" else self.name.fullmatch(name)
        return (
            found is not None
            and self.scope in ("", scope)
            and (self.value is None or self.value.search(text) is not None)
            and (self.unlike is None or self.unlike.search(text) is None)
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """What --fix does to the text that was found: each match of a pattern is replaced, `\\1` is its first group."""

    find: re.Pattern[str]
    replace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One flaw of a job.

    severity: one of LEVELS. look: what is a finding. missing: what must be there. finder: a search of the program
    instead of these. applies_to: the kinds of files and runtimes that it is for; empty: all. together, alone: what
    else must be in the file, and what must not. when: where it holds; where that is not known it is a hint. what,
    cost, fix, source: texts for the user. edit: a safe way to mend it. is_secret: what was found is never shown.
    """

    id: str
    severity: str
    what: str
    cost: str
    fix: str
    source: str
    position: Position
    look: tuple[Look, ...] = ()
    missing: tuple[Look, ...] = ()
    finder: str = ""
    applies_to: frozenset[str] = frozenset()
    together: tuple[Look, ...] = ()
    alone: tuple[Look, ...] = ()
    when: Condition = ALWAYS
    edit: Edit | None = None
    is_secret: bool = False


@dataclass(frozen=True, slots=True)
class RuleFile:
    """The rules of one file by id."""

    name: str
    description: str
    rules: dict[str, Rule]

"""Rules of the check of batch scripts: where each looks, why it exists, what it costs, and how to mend it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from uenvtool.core.errors import BadInput, Position
from uenvtool.knowledge.bind import Binder, Key
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.kinds import RULES
from uenvtool.knowledge.load import duplicate_id_problems, entries_of_other_files, once_if_shipped, usable_files
from uenvtool.knowledge.locate import Location, locate, page_of
from uenvtool.knowledge.pattern import Pattern

ERROR, WARNING, HINT = "error", "warning", "hint"
LEVELS = (ERROR, WARNING, HINT)
"""The worst first: the job fails or computes something else; it costs time or nodes; advice, shown with --all."""
KINDS = ("directive", "sbatch", "late", "variable", "command", "launch", "step", "entry", "syntax", "line")
"""The kinds of parts that a rule can look for; the schema describes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A pattern for the parts of a file: of one of KINDS, see the schema.

    value, unlike: are found in the text of the part, or not. scope: batch, step, or empty for both. raw: is found in
    the text as the file has it. when: of the launch, or of the job. exported, literal, background: only such parts.
    outside: no such block is around it. beside, apart: what else must be in the file, and what must not. detail, fix:
    what is said of it. certain: False for a hint.
    """

    directive: Pattern | None = None
    sbatch: Pattern | None = None
    late: Pattern | None = None
    variable: Pattern | None = None
    command: Pattern | None = None
    launch: Pattern | None = None
    step: Pattern | None = None
    entry: Pattern | None = None
    syntax: Pattern | None = None
    line: Pattern | None = None
    value: Pattern | None = None
    unlike: Pattern | None = None
    scope: str = ""
    raw: Pattern | None = None
    when: Condition = ALWAYS
    exported: bool = False
    literal: bool = False
    background: bool = False
    outside: tuple[str, ...] = ()
    beside: tuple[Look, ...] = ()
    apart: tuple[Look, ...] = ()
    detail: str = ""
    fix: str = ""
    certain: bool = True
    kind: str = field(init=False)
    name: Pattern = field(init=False)

    def __post_init__(self) -> None:
        kind = next((kind for kind in KINDS if getattr(self, kind)), KINDS[0])
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "name", getattr(self, kind) or Pattern(""))

    def matches(self, name: str, text: str) -> bool:
        """Tell if a part of this kind has the name and text. A line is searched for the name."""
        found = self.name.search(text) if self.kind in ("line", "sbatch") else self.name.fullmatch(name)
        return (
            found is not None
            and (self.value is None or self.value.search(text) is not None)
            and (self.unlike is None or self.unlike.search(text) is None)
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """What --fix does to the text that was found: each match of a pattern is replaced, `\\1` is its first group."""

    find: Pattern
    replace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One flaw of a job.

    severity: one of LEVELS. look: what is a finding. missing: what must be there. finder: a search of the program
    beside `look` or alone. for_: the kinds of files and runtimes that it is for; empty: all. with_, without: what
    else must be in the file, and what must not. unsure: what makes it a hint. when: where it holds; where that is not
    known it is a hint. what, cost, fix, source: texts for the user. edit: a safe way to mend it. secret: what was
    found is never shown. once: only the first of a file is told.
    """

    id: Key
    severity: str
    what: str
    cost: str
    fix: str
    source: str
    position: Position
    look: tuple[Look, ...] = ()
    missing: tuple[Look, ...] = ()
    finder: str = ""
    for_: frozenset[str] = frozenset()
    with_: tuple[Look, ...] = ()
    without: tuple[Look, ...] = ()
    unsure: tuple[Look, ...] = ()
    when: Condition = ALWAYS
    edit: Edit | None = None
    secret: bool = False
    once: bool = False

    @property
    def page(self) -> str:
        """The address of its page, where the documentation is published."""
        return page_of(self.id, self.position.file)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleFile:
    """The rules of one file by id."""

    name: str = ""
    description: str
    rules: dict[str, Rule]


def load_rule_file(name: str) -> RuleFile:
    """Return the rules of one file, by its name or path.

    Raises BadInput with every problem found, also for a rule that another file has too.
    """
    file = _load(locate(RULES, name))
    others = entries_of_other_files(RULES, file.name, lambda location: _load(location).rules)
    BadInput.raise_any(duplicate_id_problems(file.rules, others, "the rule "))
    return file


def load_rules() -> dict[str, Rule]:
    """Return every rule by id; one of the current folder shows what it finds, and changes no script."""
    return {
        name: rule if location.may_act else replace(rule, edit=None)
        for location in usable_files(RULES).values()
        for name, rule in _load(location).rules.items()
    }


@once_if_shipped
def _load(location: Location) -> RuleFile:
    binder = Binder.of(location, RULES)
    file = binder.whole(RuleFile, name=location.name)
    for rule in file.rules.values():
        if rule.missing and not rule.with_:
            binder.problem("`missing` needs `with`", rule.position, "say where the finding is reported")
    binder.finish()
    return file

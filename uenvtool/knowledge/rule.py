"""The rules of `check`: the text that each rule searches for in a batch script, and its reason, cost and fix."""

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
"""The severities, the worst first.

error: The job fails, or its results are wrong.
warning: The job wastes time or nodes.
hint: Advice that only `--all` prints.
"""
KINDS = ("directive", "sbatch", "late", "variable", "command", "launch", "step", "entry", "syntax", "line")
"""The kinds of parts of a file that a matcher can search. The schema describes them."""
LINES = ("line", "sbatch")
"""The kinds of parts that have only a text and no name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A matcher for parts of a script or EDF. Exactly one of the fields in KINDS is set.

    kind, name: The name and the pattern of the field that is set.
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
    after: tuple[Look, ...] = ()
    detail: str = ""
    fix: str = ""
    certain: bool = True
    kind: str = field(init=False)
    name: Pattern = field(init=False)

    def __post_init__(self) -> None:
        kind = next((kind for kind in KINDS if getattr(self, kind)), KINDS[0])
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "name", getattr(self, kind) or Pattern(""))

    def accepts(self, text: str) -> bool:
        """Return whether a part with this text matches, if its kind and name match."""
        return (
            (self.kind not in LINES or self.name.search(text) is not None)
            and (self.value is None or self.value.search(text) is not None)
            and (self.unlike is None or self.unlike.search(text) is None)
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit that `--fix` makes: each match of `find` is replaced. In `replace`, `\\1` is the first group."""

    find: Pattern
    replace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule of `check`, with its matchers and its texts for the user."""

    id: Key
    severity: str
    what: str
    cost: str
    fix: str
    source: str
    position: Position
    title: str = ""
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
    note: bool = False

    @property
    def page(self) -> str:
        return page_of(self.id, self.position.file)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleFile:
    """The rules of one file, by id."""

    name: str = ""
    rules: dict[str, Rule]


def load_rule_file(name: str) -> RuleFile:
    """Return the rules of one file, by its name or path. Raises BadInput with all problems.

    Ids that another file also defines are problems.
    """
    file = _load(locate(RULES, name))
    others = entries_of_other_files(RULES, file.name, lambda location: _load(location).rules)
    BadInput.raise_any(duplicate_id_problems(file.rules, others, "the rule "))
    return file


def load_rules() -> dict[str, Rule]:
    """Return every rule by id. The rules of the current directory report findings but have no edits."""
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
            hint = "add `with`, which selects the part at which the finding is reported"
            binder.problem("`missing` requires `with`", rule.position, hint)
    binder.finish()
    return file

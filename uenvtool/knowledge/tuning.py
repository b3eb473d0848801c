"""Tuning: which variables a fabric or runtime wants, with value, condition, policy, reason and source."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar, Literal, TypeVar

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.bind import Binder, Key, children
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts, Term
from uenvtool.knowledge.facts import FACTS, SOFTWARE
from uenvtool.knowledge.kinds import TUNING
from uenvtool.knowledge.load import once_if_shipped, usable_files
from uenvtool.knowledge.locate import Location, available, locate, page_of
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.sources import SOURCES, Source, source_nodes
from uenvtool.knowledge.yamltree import Node

Policy = Literal["default", "at-most", "prepend", "required", "unset", "expected"]
DEFAULT: Policy = "default"
AT_MOST: Policy = "at-most"
PREPEND: Policy = "prepend"
REQUIRED: Policy = "required"
UNSET: Policy = "unset"
EXPECTED: Policy = "expected"
TEMPORARY = "temporary"
"""What a value is computed from that a job can write down too: a folder of its own on each node."""
_MAJOR_MINOR = re.compile(r"\d+\.\d+")
VALUELESS = (UNSET, EXPECTED)
"""The policies that set nothing: removed, or left to somebody else."""

Value = str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What another variable of a Slurm job must contain for a setting to work."""

    variable: str
    contains: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What one variable is set to under one condition.

    value: the text; None if it is computed, or removed. from_: what it is computed from. otherwise: the value
    if nothing can be computed. unseen: the facts of the condition that count as true where they cannot be seen.
    workaround: the workaround that it is of, if any. together: the set that it is of, if any: all of a set is set,
    or nothing.
    """

    name: Key
    value: Value = None
    from_: str = ""
    otherwise: Value = None
    when: Condition = ALWAYS
    unseen: frozenset[str] = frozenset()
    policy: Policy = DEFAULT
    reason: str
    source: Source
    conflicts: tuple[str, ...] = ()
    needs: Need | None = None
    position: Position
    workaround: str = ""
    together: str = ""

    @property
    def is_fixed(self) -> bool:
        """Tell if it gives one text, which the value of a process can be compared with."""
        return self.policy in (DEFAULT, AT_MOST, REQUIRED) and self.value is not None and not self.from_

    @property
    def is_choice(self) -> bool:
        """Tell if another value of the user's counts."""
        return self.policy == DEFAULT

    @property
    def removes(self) -> bool:
        """Tell if the variable must not be set."""
        return self.policy == UNSET

    @property
    def is_expected(self) -> bool:
        """Tell if somebody else sets it."""
        return self.policy == EXPECTED

    def accepts(self, value: str) -> bool:
        """Tell if a value is the one that it gives, or below it if that is a limit."""
        wanted = self.value or ""
        if self.policy == AT_MOST and value.isdecimal() and wanted.isdecimal():
            return int(value[:18]) <= int(wanted)
        return value.rstrip("/") == wanted.rstrip("/")


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedVariable:
    """A variable, what its values are, what each source says of it, and its settings.

    about: what the variable is, if no setting says it. remarks: what a source says of it beside the value.
    """

    name: Key
    type: Literal["text", "integer", "flag"]
    choices: tuple[str, ...] = ()
    says: dict[str, Value]
    settings: tuple[Setting, ...]
    position: Position
    file: str
    about: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """The address of its page, where the documentation is published."""
        return page_of(self.name, self.position.file)


@dataclass(frozen=True, kw_only=True, slots=True)
class Workaround:
    """Settings against a symptom, off unless they are asked for by name. cost: what one pays for them."""

    unread: ClassVar[tuple[str, ...]] = ("set",)
    name: Key
    symptom: str
    cost: str
    source: Source
    settings: tuple[Setting, ...]
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class WayOut:
    """Values that keep a danger away.

    set: what to set. or_: what does as well, as patterns of whole values. unless: values beside which it does
    not help, as patterns found in them.
    """

    set: Mapping[str, str]
    or_: Mapping[str, Pattern] = field(default_factory=dict)
    unless: Mapping[str, Pattern] = field(default_factory=dict)
    source: Source

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.set.items())

    def holds(self, environ: Mapping[str, str]) -> bool:
        """Tell if an environment takes this way."""
        given = (
            environ.get(name) == value
            or (name in self.or_ and self.or_[name].fullmatch(environ.get(name, "")) is not None)
            for name, value in self.set.items()
        )
        return all(given) and not any(found.search(environ.get(name, "")) for name, found in self.unless.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """A danger under a condition, and the ways out of it, of which one must be taken; the first is the tuning's own.

    unseen: the facts of the condition that count as true where they cannot be seen. signs: what in a file shows that it
    is for such a place, if its system is not known.
    """

    name: Key
    danger: str
    reason: str
    when: Condition
    unseen: frozenset[str] = frozenset()
    signs: Pattern | None = None
    one_of: tuple[WayOut, ...]
    source: Source
    position: Position

    def way(self, environ: Mapping[str, str]) -> WayOut | None:
        """Return the way that an environment takes; None if it takes none."""
        return next((way for way in self.one_of if way.holds(environ)), None)

    @property
    def variables(self) -> frozenset[str]:
        """Return the variables of all ways."""
        return frozenset(name for way in self.one_of for name in way.set)

    @property
    def choice(self) -> str:
        """Return the ways as a text."""
        return ", or ".join(map(str, self.one_of))


THE_HOOK = "the hook"
"""Who sets a set that a container gets from a hook of its runtime, as the files say it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningSet:
    """Settings that belong together, and why. set_by: who sets them, if it is not this program."""

    unread: ClassVar[tuple[str, ...]] = ("when", "unseen", "source", "values")
    name: Key
    reason: str
    settings: tuple[Setting, ...]
    set_by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """One file of variables, or several as one."""

    unread: ClassVar[tuple[str, ...]] = ("sources",)
    name: str
    description: str
    variables: tuple[TunedVariable, ...] = ()
    sets: dict[str, TuningSet] = field(default_factory=dict)
    workarounds: dict[str, Workaround] = field(default_factory=dict)
    guards: tuple[Guard, ...] = ()
    chain: tuple[Location, ...]

    @property
    def needs(self) -> dict[tuple[str, str], Need]:
        """Return what a value of a variable needs, whatever the place that it is for."""
        return {
            (setting.name, setting.value): setting.needs
            for setting in self.settings
            if setting.needs and setting.value is not None
        }

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return every setting but those of workarounds, in the order of the files, the sets last."""
        of_sets = [setting for found in self.sets.values() for setting in found.settings]
        return (*(setting for variable in self.variables for setting in variable.settings), *of_sets)

    def set_by(self, setting: Setting) -> str:
        """Return who sets a setting of this tuning, if it is not this program; else an empty text."""
        return self.sets[setting.together].set_by if setting.together else ""

    @property
    def set_together(self) -> tuple[Setting, ...]:
        """The settings of workarounds and sets, whose variables may be described in any file."""
        of_workarounds = [setting for found in self.workarounds.values() for setting in found.settings]
        return (*of_workarounds, *(setting for found in self.sets.values() for setting in found.settings))


_Conditional = TypeVar("_Conditional", Setting, Guard)


def applicable(settings: Iterable[_Conditional], facts: Facts) -> Iterator[tuple[_Conditional, tuple[Term, ...]]]:
    """Yield the settings, or guards, that hold or may hold, each with the undecided terms of its condition."""
    for setting in settings:
        if setting.when.holds(facts) is not False:
            yield setting, setting.when.left(facts)


def holding(settings: Iterable[_Conditional], facts: Facts) -> Iterator[_Conditional]:
    """Yield the settings, or guards, that hold, if what is not known counts as each says."""
    for setting, left in applicable(settings, facts):
        if all(term.fact in setting.unseen for term in left):
            yield setting


def wrong_kind(variable: TunedVariable, value: str) -> str:
    """Return what is wrong with a value of a variable; an empty text if it is of its kind."""
    if variable.choices and value not in variable.choices:
        return f"{value!r} is not one of {', '.join(variable.choices)}"
    if variable.type == "flag" and value not in ("0", "1"):
        return f"{value!r} is not 0 or 1"
    if variable.type == "integer" and not value.removeprefix("-").isdigit():
        return f"{value!r} is not a whole number"
    return ""


def read_tuning(names: Iterable[str]) -> Tuning:
    """Return the tuning files of those names as one; what they say together is not checked. Raises BadInput."""
    return _as_one([_load(locate(TUNING, name)) for name in names])


def described_elsewhere(tuning: Tuning) -> Iterator[TunedVariable]:
    """Yield the variables that other files describe than those of a tuning."""
    names = {SOURCES, *(location.name for location in tuning.chain)}
    for name, location in available(TUNING).items():
        if name not in names:
            with contextlib.suppress(BadInput):  # a broken one is told when somebody names it
                yield from _load(location).variables


def _as_one(parts: Sequence[Tuning]) -> Tuning:
    return Tuning(
        name=", ".join(part.name for part in parts),
        description=" ".join(part.description for part in parts),
        variables=tuple(variable for part in parts for variable in part.variables),
        sets={name: found for part in parts for name, found in part.sets.items()},
        workarounds={name: found for part in parts for name, found in part.workarounds.items()},
        guards=tuple(guard for part in parts for guard in part.guards),
        chain=tuple(location for part in parts for location in part.chain),
    )


def load_all() -> Tuning:
    """Return everything that is known, also what no system takes together: a copy of a file beside that file."""
    return _as_one([_load(location) for name, location in usable_files(TUNING).items() if name != SOURCES])


@once_if_shipped
def _load(location: Location) -> Tuning:
    binder = Binder.of(location, TUNING)
    sources = {**source_nodes(), **dict(children(binder.tree, SOURCES))}

    @functools.cache
    def filled(name: str) -> Source:
        return binder.fill(Source, sources[name], name)

    def source(node: Node, _: str) -> Source:
        name = str(node.value)
        if name in sources:
            return filled(name)
        binder.problems.append(unknown("source", name, sources, node.position))
        return Source(name=name, title=name, date="")

    binder.special = {
        Source: source,
        TunedVariable: lambda node, name: _variable(binder, node, name, location.logical),
        Setting: lambda node, name: _setting(binder, node, name),
        TuningSet: lambda node, name: _set(binder, node, name),
        Workaround: lambda node, name: _workaround(binder, node, name),
        Guard: lambda node, name: _guard(binder, node, name),
    }
    tuning = binder.whole(Tuning, name=location.name, chain=binder.chain)
    for variable in tuning.variables:
        says = (children(binder.tree, "variables", variable.name, key) for key in ("says", "remarks"))
        for source_name, node in chain.from_iterable(says):
            if source_name not in sources:
                binder.problems.append(unknown("source", source_name, sources, node.key))
    binder.finish()
    return tuning


def _variable(binder: Binder, node: Node, name: str, file: str) -> TunedVariable:
    settings = tuple(_setting(binder, child, name) for _, child in children(node, "settings"))
    variable = binder.fill(TunedVariable, node, name, settings=settings, file=file)
    for setting in settings:
        if setting.value is not None and (wrong := wrong_kind(variable, setting.value)):
            binder.problem(f"{name}: {wrong}", setting.position, "correct the value or the type")
        if setting.policy == AT_MOST and not (setting.value or "").isdigit():
            binder.problem(f"{name}: policy at-most needs a whole number", setting.position, "write one as `value`")
    return variable


def _setting(binder: Binder, node: Node, name: str) -> Setting:
    when = _condition(binder, node)
    setting = binder.fill(Setting, node, name, when=when, unseen=_unseen(node, when))
    is_valueless = setting.policy in VALUELESS
    if (setting.value is not None) + bool(setting.from_) != (0 if is_valueless else 1):
        rule = "takes no value" if is_valueless else "needs either `value` or `from`"
        binder.problem(f"policy {setting.policy} {rule}", node.position, "see `uenvtool schema tuning`")
    return setting


def _set(binder: Binder, node: Node, name: str) -> TuningSet:
    when = _condition(binder, node)
    source = binder.special[Source](node.value["source"], "")
    shared = {"when": when, "unseen": _unseen(node, when), "source": source, "together": name}
    settings = tuple(
        binder.fill(Setting, child, variable, policy=UNSET if child.value["value"].value is None else DEFAULT, **shared)
        for variable, child in children(node, "values")
    )
    return binder.fill(TuningSet, node, name, settings=settings)


def _guard(binder: Binder, node: Node, name: str) -> Guard:
    when = _condition(binder, node)
    return binder.fill(Guard, node, name, when=when, unseen=_unseen(node, when))


def _workaround(binder: Binder, node: Node, name: str) -> Workaround:
    workaround = binder.fill(Workaround, node, name, settings=())
    settings = tuple(
        Setting(
            name=variable,
            value=None if child.value is None else str(child.value),
            policy=UNSET if child.value is None else REQUIRED,
            reason=f"workaround {name}: {workaround.symptom}",
            source=workaround.source,
            position=child.position,
            workaround=name,
        )
        for variable, child in children(node, "set")
    )
    return replace(workaround, settings=settings)


def _unseen(node: Node, when: Condition) -> frozenset[str]:
    """Return the facts of a condition that count as true where they cannot be seen."""
    facts = node.get("unseen")
    if facts is None or facts.value == "skip":
        return frozenset()
    named = {child.value for _, child in children(facts)} if isinstance(facts.value, list) else None
    return frozenset(term.fact for term in when.terms if named is None or term.fact in named)


def _condition(binder: Binder, node: Node) -> Condition:
    """Return the condition of a setting, whose facts are known and whose versions scripts can compare."""
    child = node.get("when")
    if child is None:
        return ALWAYS
    condition = binder.condition(child)
    for term in condition.terms:
        if term.fact not in FACTS and not term.fact.isupper():
            binder.problems.append(unknown("fact", term.fact, FACTS, child.position))
        if term.fact in SOFTWARE and term.values and not _MAJOR_MINOR.fullmatch(term.values[0]):
            why = f"{term.fact} {term.operator} {term.values[0]}: scripts compare MAJOR.MINOR"
            binder.problem(why, child.position, "write two numbers, for example nccl >= 2.27")
    return condition

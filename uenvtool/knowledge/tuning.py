"""Tuning: the recommended environment variables of a network or library, with reasons and sources."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Literal, TypeVar

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.bind import Binder, Key, children
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts, Term
from uenvtool.knowledge.facts import FACTS, SOFTWARE
from uenvtool.knowledge.kinds import TUNING
from uenvtool.knowledge.load import once_if_shipped, usable_files
from uenvtool.knowledge.locate import Location, available, locate, page_of
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.sources import SOURCES, Source, load_sources
from uenvtool.knowledge.yamltree import Node

Policy = Literal["default", "at-most", "prepend", "required", "unset", "expected"]
DEFAULT: Policy = "default"
AT_MOST: Policy = "at-most"
PREPEND: Policy = "prepend"
REQUIRED: Policy = "required"
UNSET: Policy = "unset"
EXPECTED: Policy = "expected"
TEMPORARY = "temporary"
"""The value of `from` for a separate directory on each node. A job can also contain this value literally."""
VENV_SITE = "venv_site"
"""The value of `from` for the package directory of a virtual environment that another tool made."""
_MAJOR_MINOR = re.compile(r"\d+\.\d+")
VALUELESS = (UNSET, EXPECTED)
"""The policies that set no value: the variable is removed, or something other than uenvtool sets it."""

Value = str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """The text that another variable must contain in a Slurm job so that a setting works."""

    variable: str
    contains: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The value of one variable under one condition.

    value: The value, or None if it is computed or if the variable is removed.
    workaround, together: The workaround or the set that contains this setting, by name. The settings of a set apply
        only together.
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
        """Return whether the setting has one fixed value, which can be compared with a process's value."""
        return self.policy in (DEFAULT, AT_MOST, REQUIRED) and self.value is not None and not self.from_

    @property
    def removes(self) -> bool:
        return self.policy == UNSET

    def accepts(self, value: str) -> bool:
        """Return whether a value equals the setting's value or, if that is a limit, does not exceed it."""
        expected = self.value or ""
        if self.policy == AT_MOST and value.isdecimal() and expected.isdecimal():
            return int(value[:18]) <= int(expected)
        return value.rstrip("/") == expected.rstrip("/")


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedVariable:
    """A variable with its type, its value in each source, and its settings."""

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
        return page_of(self.name, self.position.file)


@dataclass(frozen=True, kw_only=True, slots=True)
class Workaround:
    """Settings that fix a symptom and are used only if the user names the workaround. cost: The disadvantage."""

    unread: ClassVar[tuple[str, ...]] = ("set",)
    name: Key
    symptom: str
    cost: str
    source: Source
    settings: tuple[Setting, ...]
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class WayOut:
    """A set of variable values that together avoid a known problem."""

    set: Mapping[str, str]
    or_: Mapping[str, Pattern] = field(default_factory=dict)
    unless: Mapping[str, Pattern] = field(default_factory=dict)
    source: Source

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.set.items())

    def holds(self, environ: Mapping[str, str]) -> bool:
        given = (
            environ.get(name) == value
            or (name in self.or_ and self.or_[name].fullmatch(environ.get(name, "")) is not None)
            for name, value in self.set.items()
        )
        return all(given) and not any(pattern.search(environ.get(name, "")) for name, pattern in self.unless.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class Guard:
    """A known problem under a condition, and the ways to prevent it. One way is enough; the tuning uses the first."""

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
        """Return the first way whose values an environment contains, or None if nothing prevents the problem."""
        return next((way for way in self.one_of if way.holds(environ)), None)

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for way in self.one_of for name in way.set)

    @property
    def choice(self) -> str:
        return ", or ".join(map(str, self.one_of))


THE_HOOK = "the hook"
"""The value of `set_by` for sets that a container hook of the runtime applies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningSet:
    """Settings that belong together, and the reason. set_by: The program that applies them, if it is not uenvtool."""

    unread: ClassVar[tuple[str, ...]] = ("when", "unseen", "source", "values")
    reason: str
    settings: tuple[Setting, ...]
    set_by: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """The content of one tuning file, or of several files merged."""

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
        """Return the needs of each variable and value pair, for all systems and runtimes."""
        return {
            (setting.name, setting.value): setting.needs
            for setting in self.settings
            if setting.needs and setting.value is not None
        }

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return all settings except those in workarounds, in file order. Settings in sets come last."""
        of_sets = [setting for tuning_set in self.sets.values() for setting in tuning_set.settings]
        return (*(setting for variable in self.variables for setting in variable.settings), *of_sets)

    def set_by(self, setting: Setting) -> str:
        """Return the program that applies a setting of this tuning, or an empty string if it is uenvtool."""
        return self.sets[setting.together].set_by if setting.together else ""

    @property
    def set_together(self) -> tuple[Setting, ...]:
        """The settings of workarounds and sets. Any file can describe their variables."""
        of_workarounds = [setting for workaround in self.workarounds.values() for setting in workaround.settings]
        return (*of_workarounds, *(setting for tuning_set in self.sets.values() for setting in tuning_set.settings))


_Conditional = TypeVar("_Conditional", Setting, Guard)


def applicable(settings: Iterable[_Conditional], facts: Facts) -> Iterator[tuple[_Conditional, tuple[Term, ...]]]:
    """Yield the settings, or guards, that apply or may apply, each with the undecided terms of its condition."""
    for setting in settings:
        if setting.when.holds(facts) is not False:
            yield setting, setting.when.left(facts)


def holding(settings: Iterable[_Conditional], facts: Facts) -> Iterator[_Conditional]:
    """Yield the settings, or guards, that apply. An undecided term counts as true if `unseen` contains its fact."""
    for setting, undecided in applicable(settings, facts):
        if all(term.fact in setting.unseen for term in undecided):
            yield setting


def wrong_kind(variable: TunedVariable, value: str) -> str:
    """Return the reason why a value is invalid for a variable, or an empty string if it is valid."""
    if variable.choices and value not in variable.choices:
        return f"{value!r} is not one of {', '.join(variable.choices)}"
    if variable.type == "flag" and value not in ("0", "1"):
        return f"{value!r} is not 0 or 1"
    if variable.type == "integer" and not value.removeprefix("-").isdigit():
        return f"{value!r} is not a whole number"
    return ""


def read_tuning(names: Iterable[str]) -> Tuning:
    """Load and merge the named tuning files, without a check for contradictions. Raises BadInput."""
    return _as_one([_load(locate(TUNING, name)) for name in names])


def described_elsewhere(tuning: Tuning) -> Iterator[TunedVariable]:
    """Yield the variables that are described only in files outside this tuning."""
    names = {SOURCES, *(location.name for location in tuning.chain)}
    for name, location in available(TUNING).items():
        if name not in names:
            with contextlib.suppress(BadInput):  # commands that name a broken file report its problems
                yield from _load(location).variables


def _as_one(parts: Sequence[Tuning]) -> Tuning:
    return Tuning(
        name=", ".join(part.name for part in parts),
        description=" ".join(part.description for part in parts),
        variables=tuple(variable for part in parts for variable in part.variables),
        sets={name: tuning_set for part in parts for name, tuning_set in part.sets.items()},
        workarounds={name: workaround for part in parts for name, workaround in part.workarounds.items()},
        guards=tuple(guard for part in parts for guard in part.guards),
        chain=tuple(location for part in parts for location in part.chain),
    )


def load_all() -> Tuning:
    """Return the content of all tuning files, which may contradict each other."""
    return _as_one([_load(location) for name, location in usable_files(TUNING).items() if name != SOURCES])


@once_if_shipped
def _load(location: Location) -> Tuning:
    binder = Binder.of(location, TUNING)
    own_sources = {name: binder.fill(Source, node, name) for name, node in children(binder.tree, SOURCES)}
    sources = {**load_sources(), **own_sources}

    def source(node: Node, _: str) -> Source:
        name = str(node.value)
        if name not in sources:
            binder.problems.append(unknown("source", name, sources, node.position))
        return sources.get(name, Source(name=name, title=name, date=""))

    binder.special = {
        Source: source,
        TunedVariable: lambda node, name: _variable(binder, node, name, location.logical),
        Setting: lambda node, name: _setting(binder, node, name),
        TuningSet: lambda node, name: _set(binder, node, name),
        Workaround: lambda node, name: _workaround(binder, node, name),
        Guard: lambda node, name: binder.fill(Guard, node, name, **_condition(binder, node)),
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
            binder.problem(f"{name}: {wrong}", setting.position, "correct the value, or the type of the variable")
        if setting.policy == AT_MOST and not (setting.value or "").isdigit():
            hint = "write a whole number under `value`"
            binder.problem(f"{name}: the policy at-most requires a whole number", setting.position, hint)
    return variable


def _setting(binder: Binder, node: Node, name: str) -> Setting:
    setting = binder.fill(Setting, node, name, **_condition(binder, node))
    is_valueless = setting.policy in VALUELESS
    if (setting.value is not None) + bool(setting.from_) != (0 if is_valueless else 1):
        rule = "takes no value" if is_valueless else "needs either `value` or `from`"
        hint = "delete `value` and `from`" if is_valueless else "set exactly one of the two"
        binder.problem(f"the policy {setting.policy} {rule}", node.position, hint)
    return setting


def _set(binder: Binder, node: Node, name: str) -> TuningSet:
    source = binder.special[Source](node.value["source"], "")
    shared = {**_condition(binder, node), "source": source, "together": name}
    settings = tuple(
        binder.fill(Setting, child, variable, policy=UNSET if child.value["value"].value is None else DEFAULT, **shared)
        for variable, child in children(node, "values")
    )
    return binder.fill(TuningSet, node, name, settings=settings)


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


def _condition(binder: Binder, node: Node) -> dict[str, Any]:
    """Return the fields `when` and `unseen` of a setting, set or guard."""
    child, unseen = node.get("when"), node.get("unseen")
    if child is None:
        return {"when": ALWAYS, "unseen": frozenset()}
    condition = binder.condition(child)
    for term in condition.terms:
        if term.fact not in FACTS and not term.fact.isupper():
            binder.problems.append(unknown("fact", term.fact, FACTS, child.position))
        if term.fact in SOFTWARE and term.values and not _MAJOR_MINOR.fullmatch(term.values[0]):
            why = f"scripts can only compare MAJOR.MINOR, not {term.fact} {term.operator} {term.values[0]}"
            binder.problem(why, child.position, "write the version with two numbers, for example nccl >= 2.27")
    named = {fact.value for fact in unseen.each()} if unseen else set()
    facts = (term.fact for term in condition.terms if term.fact in named or "apply" in named)
    return {"when": condition, "unseen": frozenset(facts)}

"""Reads tuning files: the variables, workarounds and sources of `tuning/`, or everything that is wrong in them."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.knowledge.condition import ALWAYS, Condition, can_hold_together
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.kinds import TUNING
from uenvtool.knowledge.locate import Location, available, locate
from uenvtool.knowledge.reader import TreeReader, children, text
from uenvtool.knowledge.sound import sound
from uenvtool.knowledge.source import Node
from uenvtool.knowledge.tuning import (
    AT_MOST,
    DEFAULT,
    FACTS,
    REQUIRED,
    SOFTWARE,
    UNSET,
    VALUELESS,
    Guard,
    Need,
    Setting,
    Source,
    TunedVariable,
    Tuning,
    TuningSet,
    Value,
    WayOut,
    Workaround,
    wrong_kind,
)

SOURCES = "sources"
"""The file of `tuning/` that says who the sources are, and the key of any tuning file that adds some."""
_MAJOR_MINOR = re.compile(r"\d+\.\d+")


def load_tuning(names: Iterable[str], origin: Position | None = None) -> Tuning:
    """The tuning files of those names as one; origin: the place that names them.

    Raises BadInput with every problem found.
    """
    parts = [_load(locate(TUNING, name, origin)) for name in names]
    tuning = _as_one(parts)
    known = {variable.name for variable in tuning.variables}
    named = {setting.name for setting in _set_together(tuning)}.union(*(guard.variables for guard in tuning.guards))
    is_whole = named <= known
    _refuse(tuning, tuning.variables if is_whole else [*tuning.variables, *_of_other_files(parts)])
    return tuning


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


def load_tuning_file(name: str) -> Tuning:
    """One tuning file by its name or path; its sets and workarounds may set what other files describe.

    Raises BadInput with every problem found.
    """
    return load_tuning([name])


def load_all() -> Tuning:
    """Everything that is known, also what no system takes together: a copy of a file beside that file."""
    return _as_one([_load(location) for name, location in sound(TUNING).items() if name != SOURCES])


@functools.cache
def load_sources() -> dict[str, Source]:
    """The sources by their short names, the oldest first; a file of the user's adds its own."""
    found = _sources(load_extended(available(TUNING, own=False)[SOURCES], TUNING).tree)
    with contextlib.suppress(BadInput):  # a broken file of the user's is told when somebody names it
        found |= _sources(load_extended(locate(TUNING, SOURCES), TUNING).tree)
    return dict(sorted(found.items(), key=lambda item: item[1].date))


def _sources(tree: Node) -> dict[str, Source]:
    return {
        name: Source(
            name,
            text(node, "title"),
            text(node, "date"),
            text(node, "url"),
            site=text(node, "site"),
            repository=text(node, "repository"),
            ref=text(node, "ref"),
            files=_texts(files) if (files := node.get("files")) else (),
            words={variable: str(child.value) for variable, child in children(node, "words")},
            beside=_texts(beside) if (beside := node.get("beside")) else (),
            view_of=text(node, "view_of"),
        )
        for name, node in children(tree, SOURCES)
    }


def _load(location: Location) -> Tuning:
    return _Reader(load_extended(location, TUNING)).tuning()


def _refuse(tuning: Tuning, described: Iterable[TunedVariable]) -> None:
    """Raise BadInput for settings that contradict each other, and what does not fit the variables."""
    problems = [*_contradictions(tuning), *_unfit(tuning, described)]
    if problems:
        raise BadInput(problems)


def _contradictions(tuning: Tuning) -> Iterator[Problem]:
    """Settings that can hold at once, of one variable or of two that must not be set together."""
    for one, other in combinations(tuning.settings, 2):
        if one.name == other.name and can_hold_together(one.when, other.when):
            yield Problem(
                f"{one.name} is set here and at {one.position}, and both can hold at once",
                other.position,
                "give them conditions that exclude each other",
            )
        sets = not {one.policy, other.policy} & set(VALUELESS)
        clash = one.name in other.conflicts or other.name in one.conflicts
        if sets and clash and can_hold_together(one.when, other.when):
            yield Problem(
                f"{other.name} is set here and {one.name} at {one.position}, which must not be set together",
                other.position,
                "give them conditions that exclude each other",
            )


def _set_together(tuning: Tuning) -> Iterator[Setting]:
    """The settings of sets and workarounds, whose variables may be described in any file."""
    together = (found for group in (tuning.workarounds, tuning.sets) for found in group.values())
    return chain.from_iterable(found.settings for found in together)


def _of_other_files(parts: Sequence[Tuning]) -> Iterator[TunedVariable]:
    """The variables that other files than these describe."""
    names = {SOURCES, *(part.name for part in parts)}
    for name, location in available(TUNING).items():
        if name not in names:
            with contextlib.suppress(BadInput):  # a broken one is told when somebody names it
                yield from _load(location).variables


def _unfit(tuning: Tuning, described: Iterable[TunedVariable]) -> Iterator[Problem]:
    """Guards, sets and workarounds with a variable that nobody describes, or a value that it cannot have."""
    known = {variable.name: variable for variable in described}
    for guard in tuning.guards:
        yield from (
            unknown("variable", name, known, guard.position, listed_by="uenvtool explain --all")
            for name in sorted(guard.variables.difference(known))
        )
    for setting in _set_together(tuning):
        if setting.name not in known:
            yield unknown("variable", setting.name, known, setting.position, listed_by="uenvtool explain --all")
        elif setting.value is not None and (wrong := wrong_kind(known[setting.name], setting.value)):
            yield Problem(f"{setting.name}: {wrong}", setting.position, "correct the value or the type")


class _Reader(TreeReader):
    """Makes a Tuning of a tree."""

    def tuning(self) -> Tuning:
        self.sources = {**load_sources(), **_sources(self.tree)}
        tuning = Tuning(
            name=self.chain[0].name,
            description=text(self.tree, "description"),
            variables=tuple(self.variable(name, node) for name, node in self.entries("variables")),
            sets={name: self.set_of(name, node) for name, node in self.entries("sets")},
            workarounds={name: self.workaround(name, node) for name, node in self.entries("workarounds")},
            guards=tuple(self.guard(name, node) for name, node in self.entries("guards")),
            chain=self.chain,
        )
        self.fail_if_wrong()
        return tuning

    def variable(self, name: str, node: Node) -> TunedVariable:
        choices = node.get("choices")
        says, remarks = children(node, "says"), children(node, "remarks")
        for source, child in (*says, *remarks):
            self.source(source, child.key)
        variable = TunedVariable(
            name=name,
            kind=text(node, "type"),
            choices=_texts(choices) if choices else (),
            says={source: _value(child) for source, child in says},
            settings=tuple(self.setting(name, child) for child in node.value["settings"].value),
            position=node.key or node.position,
            file=self.chain[0].logical,
            about=text(node, "about"),
            remarks={source: str(child.value) for source, child in remarks},
        )
        for setting in variable.settings:
            if setting.value is not None and (wrong := wrong_kind(variable, setting.value)):
                self.problem(f"{name}: {wrong}", setting.position, "correct the value or the type")
            if setting.policy == AT_MOST and not (setting.value or "").isdigit():
                self.problem(f"{name}: policy at-most needs a whole number", setting.position, "write one as `value`")
        return variable

    def setting(self, name: str, node: Node) -> Setting:
        policy = text(node, "policy") or DEFAULT
        value, computed = node.get("value"), text(node, "from")
        if (value is not None) + bool(computed) != (0 if policy in VALUELESS else 1):
            rule = "takes no value" if policy in VALUELESS else "needs either `value` or `from`"
            self.problem(f"policy {policy} {rule}", node.position, "see `uenvtool schema tuning`")
        conflicts = node.get("conflicts")
        when = self.known_facts(node)
        return Setting(
            name=name,
            value=_value(value),
            computed=computed,
            otherwise=_value(node.get("otherwise")),
            when=when,
            unseen=self.unseen(node, when),
            policy=policy,
            reason=text(node, "reason"),
            source=self.source(text(node, "source"), node.value["source"].position),
            conflicts=_texts(conflicts) if conflicts else (),
            position=node.position,
        )

    def set_of(self, name: str, node: Node) -> TuningSet:
        """Settings of several variables that share condition and source."""
        when = self.known_facts(node)
        source = self.source(text(node, "source"), node.value["source"].position)
        settings = tuple(
            Setting(
                name=variable,
                value=_value(child.get("value")),
                when=when,
                unseen=self.unseen(node, when),
                policy=UNSET if child.value["value"].value is None else DEFAULT,
                reason=text(child, "reason"),
                source=source,
                needs=_need(child),
                position=child.position,
                together=name,
            )
            for variable, child in children(node, "values")
        )
        return TuningSet(name=name, reason=text(node, "reason"), settings=settings, set_by=text(node, "set_by"))

    def guard(self, name: str, node: Node) -> Guard:
        when = self.known_facts(node)
        return Guard(
            name=name,
            danger=text(node, "danger"),
            reason=text(node, "reason"),
            when=when,
            unseen=self.unseen(node, when),
            signs=self.pattern(node, "signs"),
            ways=tuple(self.way_out(child) for child in node.value["one_of"].value),
            source=self.source(text(node, "source"), node.value["source"].position),
            position=node.key or node.position,
        )

    def way_out(self, node: Node) -> WayOut:
        return WayOut(
            values={variable: str(child.value) for variable, child in children(node, "set")},
            accepted=self.patterns(node, "or"),
            unless=self.patterns(node, "unless"),
            source=self.source(text(node, "source"), node.value["source"].position),
        )

    def patterns(self, node: Node, key: str) -> dict[str, re.Pattern[str]]:
        listed = node.get(key)
        found = {variable: self.pattern(listed, variable) for variable, _ in children(node, key) if listed}
        return {variable: pattern for variable, pattern in found.items() if pattern}

    def unseen(self, node: Node, when: Condition) -> frozenset[str]:
        """The facts of a condition that count as true where they cannot be seen."""
        facts = node.get("unseen")
        if facts is None or facts.value == "skip":
            return frozenset()
        return frozenset(term.fact for term in when.terms if facts.value == "apply" or term.fact in _texts(facts))

    def known_facts(self, node: Node) -> Condition:
        """The condition of a setting, whose facts are known and whose versions scripts can compare."""
        condition = self.when(node)
        for term in condition.terms:
            position = node.value["when"].position
            if term.fact not in FACTS and not term.fact.isupper():
                self.problems.append(unknown("fact", term.fact, FACTS, position))
            if term.fact in SOFTWARE and term.values and not _MAJOR_MINOR.fullmatch(term.values[0]):
                self.problem(
                    f"{term.fact} {term.operator} {term.values[0]}: scripts compare MAJOR.MINOR",
                    position,
                    "write two numbers, for example nccl >= 2.27",
                )
        return condition

    def source(self, name: str, position: Position | None) -> Source:
        if name not in self.sources:
            self.problems.append(unknown("source", name, self.sources, position))
        return self.sources.get(name, Source(name, name, ""))

    def workaround(self, name: str, node: Node) -> Workaround:
        source = self.source(text(node, "source"), node.value["source"].position)
        symptom = text(node, "symptom")
        settings = tuple(
            Setting(
                name=variable,
                value=_value(child),
                when=ALWAYS,
                policy=UNSET if child.value is None else REQUIRED,
                reason=f"workaround {name}: {symptom}",
                source=source,
                position=child.position,
                workaround=name,
            )
            for variable, child in children(node, "set")
        )
        return Workaround(
            name=name,
            symptom=symptom,
            cost=text(node, "cost"),
            source=source,
            settings=settings,
            position=node.key or node.position,
        )


def _value(node: Node | None) -> Value:
    return None if node is None or node.value is None else str(node.value)


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(str(child.value) for child in node.value)


def _need(node: Node) -> Need | None:
    needs = node.get("needs")
    return Need(text(needs, "variable"), text(needs, "contains"), text(needs, "hint")) if needs else None

"""Tuning: which variables a fabric or runtime wants, with value, condition, policy, reason and source."""

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.core.words import grouped
from uenvtool.knowledge.bind import Binder, Key, children
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts, Term, can_hold_together
from uenvtool.knowledge.kinds import TUNING
from uenvtool.knowledge.load import load_extended, usable_files
from uenvtool.knowledge.locate import Location, available, locate
from uenvtool.knowledge.pages import page_of
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.system import FACTS as SYSTEM_FACTS
from uenvtool.knowledge.system import System
from uenvtool.knowledge.version import Version, Versions
from uenvtool.knowledge.yamltree import Node

if TYPE_CHECKING:
    from uenvtool.knowledge.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Software:
    """A package whose version decides.

    package: its Spack name. library: the file that shows it where a script looks, such as `libnccl.so`; a version
    is read from a longer name (`libnccl.so.2.26.2`). variable: one that may hold its version. Both may be empty:
    then a script cannot see it.
    """

    package: str
    library: str = ""
    variable: str = ""


SOFTWARE = {
    "nccl": Software("nccl", "libnccl.so", "NCCL_VERSION"),
    "aws-ofi-nccl": Software("aws-ofi-nccl"),
    "libfabric": Software("libfabric"),
    "cuda": Software("cuda"),
    "nvshmem": Software("nvshmem", "libnvshmem_host.so"),
    "torch": Software("py-torch"),
}
"""Facts that are versions. The name of libfabric's library counts interfaces, not releases."""
FACTS = (*SYSTEM_FACTS, "runtime", "container", "image", "netstack", "overlay", "nodes", *SOFTWARE)
"""What a condition can ask for: of the system and node type, the runtime, whether this is inside a container, its
image, which network stack a hook mounts there, whether a virtual environment lies over the base, how many nodes the job
has, and versions."""
Policy = Literal["default", "at-most", "prepend", "required", "unset", "expected"]
DEFAULT: Policy = "default"
AT_MOST: Policy = "at-most"
PREPEND: Policy = "prepend"
REQUIRED: Policy = "required"
UNSET: Policy = "unset"
EXPECTED: Policy = "expected"
TEMPORARY = "temporary"
"""What a value is computed from that a job can write down too: a folder of its own on each node."""
SOURCES = "sources"
"""The file of `tuning/` that says who the sources are, and the key of any tuning file that adds some."""
_MAJOR_MINOR = re.compile(r"\d+\.\d+")
VALUELESS = (UNSET, EXPECTED)
"""The policies that set nothing: removed, or left to somebody else."""

Value = str | None


@dataclass(frozen=True, slots=True)
class Source:
    """Who says something, since when (YYYY, YYYY-MM or YYYY-MM-DD), and where to read it, if it is public.

    site: the system that it is about, if others are compared with it. files: paths in a repository of GitHub at a tag
    or commit (ref; none: its newest), or addresses. words: variable to the words of a file that say it, where they are
    not the variable beside its value. beside: variables that the files set too, and that are not this tool's.
    view_of: how the labels of the published uenv begin whose view sets these values.
    """

    name: Key
    title: str
    date: str
    url: str = ""
    site: str = ""
    repository: str = ""
    ref: str = ""
    files: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    view_of: str = ""

    def __str__(self) -> str:
        return f"{self.title}, {self.date}"


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


def recipe_facts(
    recipe: "Recipe", system: System, uarch: str, lock: Mapping[str, Sequence[str]] | None = None
) -> Facts:
    """Return the versions of a recipe's software on a node type, as facts. A package that it does not name is absent.

    lock: what it resolved to, package to versions, if that is known; nothing else counts then, unless it is not what
    the recipe asks for, and so of another state of it. Else what the system brings decides, before what the recipe asks
    for.
    """
    from uenvtool.knowledge.checks import coupled_pins

    facts = system.facts(uarch)
    wanted: dict[str, Versions | None] = {}
    for root in recipe.roots:
        if root.when.holds(facts):
            wanted[root.spec.package] = root.spec.versions
    coupled = {name: pin for name, (pin, _) in coupled_pins(recipe, facts).items()}
    for package, pin in {**coupled, **recipe.require}.items():
        if package in wanted and not wanted[package] and pin.when.holds(facts):
            wanted[package] = pin.version
    wanted |= {
        name: external.spec.versions
        for name, package in system.packages.items()
        if name in wanted and package.buildable is False
        for external in reversed(package.externals)
        if external.when.holds(facts)
    }
    named = {fact: software.package for fact, software in SOFTWARE.items()}
    if lock is not None and all(_is_met(wanted[name], lock.get(name)) for name in named.values() if name in wanted):
        return {fact: next(iter(lock.get(name, ())), None) for fact, name in named.items()}
    return {fact: _version(wanted[name]) if name in wanted else None for fact, name in named.items()}


def _is_met(constraint: Versions | None, locked: Sequence[str] | None) -> bool:
    return bool(locked) and (constraint is None or any(constraint.contains(Version(text)) for text in locked or ()))


def _version(constraint: Versions | None) -> str:
    return str(constraint.lowest) if constraint and constraint.lowest else ""


def wrong_kind(variable: TunedVariable, value: str) -> str:
    """Return what is wrong with a value of a variable; an empty text if it is of its kind."""
    if variable.choices and value not in variable.choices:
        return f"{value!r} is not one of {', '.join(variable.choices)}"
    if variable.type == "flag" and value not in ("0", "1"):
        return f"{value!r} is not 0 or 1"
    if variable.type == "integer" and not value.removeprefix("-").isdigit():
        return f"{value!r} is not a whole number"
    return ""


def load_tuning(names: Iterable[str], *, trusts_shipped: bool = True) -> Tuning:
    """Return the tuning files of those names as one. Raises BadInput with every problem found.

    trusts_shipped: that those which ship contradict nobody, which is a test's to see, is not looked at again.
    """
    parts = [_load(locate(TUNING, name)) for name in names]
    tuning = _as_one(parts)
    known = {variable.name for variable in tuning.variables}
    named = {setting.name for setting in _set_together(tuning)}.union(*(guard.variables for guard in tuning.guards))
    described = tuning.variables if named <= known else [*tuning.variables, *_of_other_files(parts)]
    is_trusted = trusts_shipped and all(location.is_built_in for location in tuning.chain)
    BadInput.raise_any([*(() if is_trusted else contradictions(tuning)), *_unfit(tuning, described)])
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
    """Return one tuning file by its name or path; its sets and workarounds may set what other files describe.

    Raises BadInput with every problem found.
    """
    return load_tuning([name], trusts_shipped=False)


def load_all() -> Tuning:
    """Return everything that is known, also what no system takes together: a copy of a file beside that file."""
    return _as_one([_load(location) for name, location in usable_files(TUNING).items() if name != SOURCES])


@functools.cache
def source_nodes() -> dict[str, Node]:
    """Return what is said of each source, by its short name; a file of the user's adds its own."""
    found = dict(children(load_extended(available(TUNING, own=False)[SOURCES], TUNING).tree, SOURCES))
    with contextlib.suppress(BadInput):  # a broken file of the user's is told when somebody names it
        found |= children(load_extended(locate(TUNING, SOURCES), TUNING).tree, SOURCES)
    return found


def load_sources() -> dict[str, Source]:
    """Return the sources by their short names, the oldest first."""
    found = {name: Binder(node).fill(Source, node, name) for name, node in source_nodes().items()}
    return dict(sorted(found.items(), key=lambda item: item[1].date))


def contradictions(tuning: Tuning) -> Iterator[Problem]:
    """Yield settings that can hold at once, of one variable or of two that must not be set together."""
    for one, other in _pairs(tuning.settings):
        if one.name == other.name:
            what = f"{one.name} is set here and at {one.position}, and both can hold at once"
        elif not {one.policy, other.policy} & set(VALUELESS):
            what = f"{other.name} is set here and {one.name} at {one.position}, which must not be set together"
        else:
            continue
        if can_hold_together(one.when, other.when):
            yield Problem(what, other.position, "give them conditions that exclude each other")


def _pairs(settings: Sequence[Setting]) -> Iterator[tuple[Setting, Setting]]:
    """Yield the settings of one variable, and those of variables that must not be set together, by twos."""
    by_name = grouped((setting.name, index) for index, setting in enumerate(settings))
    found = {
        (min(index, other), max(index, other))
        for index, setting in enumerate(settings)
        for name in (setting.name, *setting.conflicts)
        for other in by_name.get(name, ())
        if other != index
    }
    yield from ((settings[one], settings[other]) for one, other in sorted(found))


def _set_together(tuning: Tuning) -> Iterator[Setting]:
    """Yield the settings of sets and workarounds, whose variables may be described in any file."""
    together = (found for group in (tuning.workarounds, tuning.sets) for found in group.values())
    return chain.from_iterable(found.settings for found in together)


def _of_other_files(parts: Sequence[Tuning]) -> Iterator[TunedVariable]:
    names = {SOURCES, *(part.name for part in parts)}
    for name, location in available(TUNING).items():
        if name not in names:
            with contextlib.suppress(BadInput):  # a broken one is told when somebody names it
                yield from _load(location).variables


def _unfit(tuning: Tuning, described: Iterable[TunedVariable]) -> Iterator[Problem]:
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
    """Return settings of several variables that share condition and source."""
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

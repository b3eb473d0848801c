"""Tuning: which variables a fabric or runtime wants, with value, condition, policy, reason and source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import Condition, Facts, Term
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.system import FACTS as SYSTEM_FACTS
from uenvtool.knowledge.version import Versions


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
DEFAULT, AT_MOST, PREPEND, REQUIRED, UNSET, EXPECTED = (
    "default",
    "at-most",
    "prepend",
    "required",
    "unset",
    "expected",
)
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

    name: str
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


@dataclass(frozen=True, slots=True)
class Need:
    """What another variable of a Slurm job must contain for a setting to work."""

    variable: str
    contains: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What one variable is set to under one condition.

    value: the text; None if it is computed, or removed. computed: what it is computed from. otherwise: the value
    if nothing can be computed. unseen: the facts of the condition that count as true where they cannot be seen.
    workaround: the workaround that it is of, if any. together: the set that it is of, if any: all of a set is set,
    or nothing.
    """

    name: str
    value: Value
    when: Condition
    policy: str
    reason: str
    source: Source
    position: Position
    computed: str = ""
    otherwise: Value = None
    unseen: frozenset[str] = frozenset()
    conflicts: tuple[str, ...] = ()
    needs: Need | None = None
    workaround: str = ""
    together: str = ""

    @property
    def is_fixed(self) -> bool:
        """Tell if it gives one text, which the value of a process can be compared with."""
        return self.policy in (DEFAULT, AT_MOST, REQUIRED) and self.value is not None and not self.computed

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedVariable:
    """A variable, what its values are, what each source says of it, and its settings.

    about: what the variable is, if no setting says it. remarks: what a source says of it beside the value.
    """

    name: str
    kind: str
    choices: tuple[str, ...]
    says: dict[str, Value]
    settings: tuple[Setting, ...]
    position: Position
    file: str
    about: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workaround:
    """Settings against a symptom, off unless they are asked for by name. cost: what one pays for them."""

    name: str
    symptom: str
    cost: str
    source: Source
    settings: tuple[Setting, ...]
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """Values that keep a danger away.

    values: what to set. accepted: what does as well, as patterns of whole values. unless: values beside which it does
    not help, as patterns found in them.
    """

    values: Mapping[str, str]
    accepted: Mapping[str, re.Pattern[str]]
    unless: Mapping[str, re.Pattern[str]]
    source: Source

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items())

    def holds(self, environ: Mapping[str, str]) -> bool:
        """Tell if an environment takes this way."""
        given = (
            environ.get(name) == value
            or (name in self.accepted and self.accepted[name].fullmatch(environ.get(name, "")) is not None)
            for name, value in self.values.items()
        )
        return all(given) and not any(found.search(environ.get(name, "")) for name, found in self.unless.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A danger under a condition, and the ways out of it, of which one must be taken; the first is the tuning's own.

    unseen: the facts of the condition that count as true where they cannot be seen. signs: what in a file shows that it
    is for such a place, if its system is not known.
    """

    name: str
    danger: str
    reason: str
    when: Condition
    unseen: frozenset[str]
    signs: re.Pattern[str] | None
    ways: tuple[WayOut, ...]
    source: Source
    position: Position

    def way(self, environ: Mapping[str, str]) -> WayOut | None:
        """The way that an environment takes; None if it takes none."""
        return next((way for way in self.ways if way.holds(environ)), None)

    @property
    def variables(self) -> frozenset[str]:
        """The variables of all ways."""
        return frozenset(name for way in self.ways for name in way.values)

    @property
    def choice(self) -> str:
        """The ways as a text."""
        return ", or ".join(map(str, self.ways))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningSet:
    """Settings that belong together, and why. set_by: who sets them, if it is not this program."""

    name: str
    reason: str
    settings: tuple[Setting, ...]
    set_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """One file of variables, or several as one."""

    name: str
    description: str
    variables: tuple[TunedVariable, ...]
    sets: dict[str, TuningSet]
    workarounds: dict[str, Workaround]
    guards: tuple[Guard, ...]
    chain: tuple[Location, ...]

    @property
    def needs(self) -> dict[tuple[str, str], Need]:
        """What a value of a variable needs, whatever the place that it is for."""
        return {
            (setting.name, setting.value): setting.needs
            for setting in self.settings
            if setting.needs and setting.value is not None
        }

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every setting but those of workarounds, in the order of the files, the sets last."""
        of_sets = [setting for found in self.sets.values() for setting in found.settings]
        return (*(setting for variable in self.variables for setting in variable.settings), *of_sets)


class Conditional(Protocol):
    """What holds under a condition."""

    @property
    def when(self) -> Condition: ...
    @property
    def unseen(self) -> frozenset[str]: ...


_Conditional = TypeVar("_Conditional", bound=Conditional)


def applicable(settings: Iterable[_Conditional], facts: Facts) -> Iterator[tuple[_Conditional, tuple[Term, ...]]]:
    """The settings, or guards, that hold or may hold, each with the terms of its condition that are not decided yet."""
    for setting in settings:
        if setting.when.holds(facts) is not False:
            yield setting, setting.when.left(facts)


def holding(settings: Iterable[_Conditional], facts: Facts) -> Iterator[_Conditional]:
    """The settings, or guards, that hold, if what is not known counts as each says."""
    for setting, left in applicable(settings, facts):
        if all(term.fact in setting.unseen for term in left):
            yield setting


def recipe_facts(recipe: Recipe, system: Facts) -> Facts:
    """The versions that a recipe gives, as facts. A package that it does not name is absent."""
    wanted: dict[str, str] = {}
    for group in recipe.groups:
        for root in group.specs:
            if root.when.holds(system):
                wanted[root.spec.package] = _version(root.spec.versions)
    for package, pin in recipe.require.items():
        if package in wanted and not wanted[package] and pin.when.holds(system):
            wanted[package] = _version(pin.versions)
    return {fact: wanted.get(software.package) for fact, software in SOFTWARE.items()}


def _version(constraint: Versions | None) -> str:
    return str(constraint.lowest) if constraint and constraint.lowest else ""


def wrong_kind(variable: TunedVariable, value: str) -> str:
    """What is wrong with a value of a variable; an empty text if it is of its kind."""
    if variable.choices and value not in variable.choices:
        return f"{value!r} is not one of {', '.join(variable.choices)}"
    if variable.kind == "flag" and value not in ("0", "1"):
        return f"{value!r} is not 0 or 1"
    if variable.kind == "integer" and not value.removeprefix("-").isdigit():
        return f"{value!r} is not a whole number"
    return ""

"""Tuning: which variables a fabric or runtime wants, with value, condition, policy, reason and source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from uenvtool.errors import Position
from uenvtool.model.condition import (
    Condition,
    Facts,
    Term,
)
from uenvtool.model.locate import Location
from uenvtool.model.recipe import Recipe
from uenvtool.model.system import FACTS as SYSTEM_FACTS
from uenvtool.model.version import Versions

PACKAGES = {
    "nccl": "nccl",
    "aws-ofi-nccl": "aws-ofi-nccl",
    "libfabric": "libfabric",
    "cuda": "cuda",
    "nvshmem": "nvshmem",
    "torch": "py-torch",
}
"""Facts that are versions, and the Spack packages whose versions they are."""
FACTS = (*SYSTEM_FACTS, "runtime", "image", "overlay", *PACKAGES)
"""What a condition can ask for: of the system and node type, the runtime, the container's image, whether a
virtual environment is laid over the base, and versions."""
DEFAULT, REQUIRED, UNSET, EXPECTED = "default", "required", "unset", "expected"
VALUELESS = (UNSET, EXPECTED)
"""The policies that set nothing: removed, or left to somebody else and told where it is missing."""

Value = str | None


@dataclass(frozen=True, slots=True)
class Source:
    """Who says something, and since when: YYYY, YYYY-MM or YYYY-MM-DD."""

    name: str
    title: str
    date: str

    def __str__(self) -> str:
        return f"{self.title}, {self.date}"


@dataclass(frozen=True, slots=True)
class Need:
    """What another variable of a Slurm job must contain for a setting to work."""

    variable: str
    contains: str
    hint: str


@dataclass(frozen=True, slots=True)
class Setting:
    """What one variable is set to under one condition.

    value: the text; None where it is computed, or unset. computed: what it is computed from.
    otherwise: the value where nothing can be computed. unseen: whether it applies where a version
    of the condition cannot be seen. workaround: the set that it is of, if any.
    """

    name: str
    value: Value
    computed: str
    otherwise: Value
    when: Condition
    unseen: bool
    policy: str
    reason: str
    source: Source
    conflicts: tuple[str, ...]
    needs: Need | None
    position: Position
    workaround: str = ""


@dataclass(frozen=True, slots=True)
class TunedVariable:
    """A variable, what its values are, what each source says of it, and its settings."""

    name: str
    kind: str
    choices: tuple[str, ...]
    says: dict[str, Value]
    settings: tuple[Setting, ...]
    position: Position
    file: str


@dataclass(frozen=True, slots=True)
class Workaround:
    """Settings against a symptom, off unless they are asked for by name."""

    name: str
    symptom: str
    source: Source
    settings: tuple[Setting, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Tuning:
    """One file of variables, or several as one."""

    name: str
    description: str
    variables: tuple[TunedVariable, ...]
    workarounds: dict[str, Workaround]
    chain: tuple[Location, ...]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every setting, in the order of the files."""
        return tuple(setting for variable in self.variables for setting in variable.settings)


def applicable(settings: Iterable[Setting], facts: Facts) -> Iterator[tuple[Setting, tuple[Term, ...]]]:
    """The settings that hold or may hold, each with the terms of its condition that are not decided yet."""
    for setting in settings:
        if setting.when.holds(facts) is not False:
            yield setting, setting.when.left(facts)


def holding(settings: Iterable[Setting], facts: Facts) -> Iterator[Setting]:
    """The settings that hold; one whose condition cannot be decided holds where it says so."""
    for setting, left in applicable(settings, facts):
        if not left or setting.unseen:
            yield setting


def recipe_facts(recipe: Recipe, system: Facts) -> Facts:
    """The versions that a recipe gives, as facts. A package that it does not name is absent."""
    asked: dict[str, str] = {}
    for group in recipe.groups:
        for root in group.specs:
            if root.when.holds(system):
                asked[root.spec.package] = _version(root.spec.versions)
    for package, pin in recipe.require.items():
        if package in asked and not asked[package] and pin.when.holds(system):
            asked[package] = _version(pin.versions)
    return {fact: asked.get(package) for fact, package in PACKAGES.items()}


def _version(constraint: Versions | None) -> str:
    return str(constraint.lowest) if constraint and constraint.lowest else ""


def wrong_kind(variable: TunedVariable, value: str) -> str:
    """What is wrong with a value of a variable; nothing where it is of its kind."""
    if variable.choices and value not in variable.choices:
        return f"{value!r} is not one of {', '.join(variable.choices)}"
    if variable.kind == "flag" and value not in ("0", "1"):
        return f"{value!r} is not 0 or 1"
    if variable.kind == "integer" and not value.removeprefix("-").isdigit():
        return f"{value!r} is not a whole number"
    return ""

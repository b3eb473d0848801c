"""Checks that a schema cannot express.

For a recipe, these are its package names, versions and couplings. For tuning files, these are settings that contradict
each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.core.words import grouped
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts, can_hold_together
from uenvtool.knowledge.kinds import RECIPE
from uenvtool.knowledge.locate import data_root, in_your_own
from uenvtool.knowledge.packages import Coupling, Pin, package_facts
from uenvtool.knowledge.recipe import Recipe, read_recipe
from uenvtool.knowledge.tuning import (
    VALUELESS,
    Setting,
    TunedVariable,
    Tuning,
    described_elsewhere,
    read_tuning,
    wrong_kind,
)
from uenvtool.knowledge.version import Versions


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """A version that a recipe requests under a condition. hard: Whether Spack must use this version."""

    package: str
    versions: Versions
    position: Position
    hard: bool = True
    when: Condition = ALWAYS


def version_requests(recipe: Recipe) -> Iterator[VersionRequest]:
    """Yield every version that the recipe requests in its root specs, compiler, Python, MPI and pins."""
    for root in (*recipe.roots, *([recipe.compiler] if recipe.compiler else [])):
        if versions := root.spec.versions:
            yield VersionRequest(root.spec.package, versions, root.position, when=root.when)
    hard = [*recipe.require.values(), *recipe.compilers.values(), *(recipe.mpi or {}).values()]
    hard += [recipe.python] if recipe.python else []
    for pin, is_hard in (*((pin, True) for pin in hard), *((pin, False) for pin in recipe.prefer.values())):
        if pin.version:
            yield VersionRequest(pin.package, pin.version, pin.position, hard=is_hard, when=pin.when)


def hard_requests(recipe: Recipe, facts: Facts) -> list[VersionRequest]:
    """Return the versions that Spack must use on a node with these facts."""
    return [request for request in version_requests(recipe) if request.hard and request.when.holds(facts)]


def applied_couplings(recipe: Recipe, facts: Facts | None = None) -> list[Coupling]:
    """Return the couplings that apply to the versions that the recipe requests.

    A coupling of the recipe replaces the known coupling with the same `when`.

    facts: The facts of a node type. Without facts, a coupling is returned if it applies on any node type.
    """
    requests = _possible_requests(recipe, facts)
    rules = {rule.when.text: rule for rule in (*package_facts().couplings, *recipe.couplings)}
    return [rule for rule in rules.values() if any(_applies(rule, request) for request in requests)]


def _possible_requests(recipe: Recipe, facts: Facts | None) -> list[VersionRequest]:
    return [request for request in version_requests(recipe) if facts is None or request.when.holds(facts) is not False]


def coupled_pins(recipe: Recipe, facts: Facts | None = None) -> dict[str, tuple[Pin, Coupling]]:
    """Return the hard pins that couplings add, with the couplings, for packages whose version the recipe does not set.

    facts: As in `applied_couplings`.
    """
    decided = {request.package for request in _possible_requests(recipe, facts) if request.hard}
    pins: dict[str, tuple[Pin, Coupling]] = {}
    for rule in applied_couplings(recipe, facts):
        for pin in rule.then:
            if pin.package not in decided:
                pins.setdefault(pin.package, (replace(pin, reason=rule.reason), rule))
    return pins


def unbuildable(recipe: Recipe, facts: Facts) -> Iterator[Problem]:
    """Yield a problem for each package that, according to a coupling, cannot be built on a node with these facts.

    A package file of the recipe that contains the version makes the package buildable.
    """
    own = {addition.target: addition.text() for addition in recipe.additions}
    packages = {root.spec.package for root in recipe.roots if root.when.holds(facts) is not False}
    for rule in applied_couplings(recipe, facts):
        versions = {pin.package: str(pin.version) for pin in rule.then}
        for package, failure in rule.lacks.items():
            version = versions.get(package, "")
            if package in packages and f'"{version}"' not in own.get(f"{package.replace('-', '_')}/package.py", ""):
                yield Problem(
                    f"{package}, which is coupled to {rule.when}, would not build: {failure}",
                    rule.position,
                    f"use another version, or add {package}@{version} under packages/ of your own recipe",
                )


def load_recipe(name: str, unwritten: bytes | None = None) -> Recipe:
    """Load and check the recipe with this name or path. Raises BadInput with all problems.

    unwritten: The content to check instead of the file, which may not exist yet.
    """
    recipe = read_recipe(name, unwritten)
    checks = (_python_names, _roots_named_twice, _contradictions, _broken_couplings)
    BadInput.raise_any(problem for check in checks for problem in check(recipe))
    return recipe


def _applies(rule: Coupling, request: VersionRequest) -> bool:
    if request.package != rule.when.package or request.versions.single is None:
        return False
    return rule.when.versions is None or request.versions.intersects(rule.when.versions)


def broken_couplings(recipe: Recipe) -> Iterator[tuple[Coupling, Pin, VersionRequest]]:
    """Yield each coupling that the recipe violates, with the pin of the coupling and the request of the recipe."""
    requests = list(version_requests(recipe))
    for rule in applied_couplings(recipe):
        for pin in rule.then:
            for request in requests:
                if request.package == pin.package and pin.version and not request.versions.intersects(pin.version):
                    yield rule, pin, request


def _broken_couplings(recipe: Recipe) -> Iterator[Problem]:
    for rule, pin, request in broken_couplings(recipe):
        yield Problem(
            f"{pin.package}@{request.versions} is not compatible with {rule.when}, which needs "
            f"{pin.package}@{pin.version}",
            request.position,
            f"use {pin.package}@{pin.version}, or change both versions{in_your_own(request.position)}. "
            f"The coupling is at {rule.position}: {rule.reason}",
        )


def _contradictions(recipe: Recipe) -> Iterator[Problem]:
    several = {root.position for root in recipe.roots} if recipe.unify == "when_possible" else set()
    hard = grouped((request.package, request) for request in version_requests(recipe) if request.hard)
    for package, requests in hard.items():
        pairs = combinations(requests, 2) if several else ((requests[0], other) for other in requests[1:])
        for first, other in pairs:
            may_differ = first.position in several and other.position in several
            if not first.versions.intersects(other.versions) and not may_differ:
                yield Problem(
                    f"{package} is requested at {other.versions}, but {first.position} requests {first.versions}",
                    other.position,
                    f"keep only one of the two requests{in_your_own(first.position)}",
                )


def _roots_named_twice(recipe: Recipe) -> Iterator[Problem]:
    if recipe.unify == "when_possible":
        return
    for package, named in grouped((root.spec.package, root) for root in recipe.roots).items():
        for first, second in combinations(named, 2):
            if can_hold_together(first.when, second.when):  # Spack would merge the two or find no solution
                yield Problem(
                    f"{package} is already a root spec at {first.position}",
                    second.position,
                    "keep only one of them. To change an inherited spec, write yours in a group of the same name. To "
                    "put both in one image, set `unify: when_possible` and select one of them in each view",
                )


def _python_names(recipe: Recipe) -> Iterator[Problem]:
    pins = [(pin.package, pin.position) for pin in (*recipe.require.values(), *recipe.prefer.values())]
    for name, position in [*((root.spec.package, root.position) for root in recipe.roots), *pins]:
        if name in _names_of_python_packages():
            yield Problem(f"Spack has no package {name!r}", position, f"use Spack's name for it, py-{name}")


@functools.cache
def _names_of_python_packages() -> frozenset[str]:
    lines = (data_root() / RECIPE.directory / "python-names.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def load_tuning(names: Iterable[str], *, trusts_shipped: bool = True) -> Tuning:
    """Load, check and merge the named tuning files. Raises BadInput with all problems.

    trusts_shipped: Whether to skip the search for contradictions if all files are built in. A test covers these files.
    """
    tuning = read_tuning(names)
    known = {variable.name for variable in tuning.variables}
    named = {setting.name for setting in tuning.set_together}.union(*(guard.variables for guard in tuning.guards))
    described = tuning.variables if named <= known else (*tuning.variables, *described_elsewhere(tuning))
    is_trusted = trusts_shipped and all(location.is_built_in for location in tuning.chain)
    BadInput.raise_any([*(() if is_trusted else contradictions(tuning)), *_undescribed(tuning, described)])
    return tuning


def load_tuning_file(name: str) -> Tuning:
    """Load and check one tuning file by name or path. Raises BadInput with all problems.

    The file's sets and workarounds may set variables that other files describe.
    """
    return load_tuning([name], trusts_shipped=False)


def contradictions(tuning: Tuning) -> Iterator[Problem]:
    """Yield a problem for each pair of settings that must not apply together but can.

    Such a pair sets the same variable, or two variables that exclude each other. Two settings with the same value are
    allowed if something other than uenvtool sets one of them.
    """
    for first, second in _pairs(tuning.settings):
        if (first.name, first.value) == (second.name, second.value) and (tuning.set_by(first) or tuning.set_by(second)):
            continue
        if first.name == second.name:
            message = f"{first.name} is also set at {first.position}, and both settings can apply at the same time"
        elif not {first.policy, second.policy} & set(VALUELESS):
            message = f"{second.name} conflicts with {first.name}, which is set at {first.position}"
        else:
            continue
        if can_hold_together(first.when, second.when):
            yield Problem(message, second.position, "give the two settings conditions that exclude each other")


def _pairs(settings: Sequence[Setting]) -> Iterator[tuple[Setting, Setting]]:
    by_name = grouped((setting.name, index) for index, setting in enumerate(settings))
    pairs = {
        (min(index, second), max(index, second))
        for index, setting in enumerate(settings)
        for name in (setting.name, *setting.conflicts)
        for second in by_name.get(name, ())
        if second != index
    }
    yield from ((settings[first], settings[second]) for first, second in sorted(pairs))


def _undescribed(tuning: Tuning, described: Iterable[TunedVariable]) -> Iterator[Problem]:
    known = {variable.name: variable for variable in described}
    for guard in tuning.guards:
        yield from (
            unknown("variable", name, known, guard.position, listed_by="uenvtool explain --all")
            for name in sorted(guard.variables.difference(known))
        )
    for setting in tuning.set_together:
        if setting.name not in known:
            yield unknown("variable", setting.name, known, setting.position, listed_by="uenvtool explain --all")
        elif setting.value is not None and (wrong := wrong_kind(known[setting.name], setting.value)):
            yield Problem(
                f"{setting.name}: {wrong}", setting.position, "correct the value, or the type of the variable"
            )

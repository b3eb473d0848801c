"""What must hold beyond the schema: a recipe's names, versions and couplings; settings that contradict each other."""

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
from uenvtool.knowledge.recipe import Coupling, Pin, Recipe, read_recipe
from uenvtool.knowledge.spec import Spec
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


@dataclass(frozen=True, kw_only=True, slots=True)
class VersionRequest:
    """A version that the recipe asks for somewhere. hard: Spack must take it. when: where it does."""

    package: str
    versions: Versions
    position: Position
    hard: bool = True
    when: Condition = ALWAYS


def version_requests(recipe: Recipe) -> Iterator[VersionRequest]:
    """Yield every version that the recipe asks for, in roots, compiler, Python, MPI and pins."""
    for root in recipe.roots:
        yield from _of_spec(root.spec, root.position, root.when)
    if recipe.compiler:
        yield from _of_spec(recipe.compiler.spec, recipe.compiler.position)
    hard = [*recipe.require.values(), *recipe.compilers.values(), *(recipe.mpi or {}).values()]
    hard += [recipe.python] if recipe.python else []
    for pin, is_hard in (*((pin, True) for pin in hard), *((pin, False) for pin in recipe.prefer.values())):
        if pin.version:
            yield VersionRequest(
                package=pin.package, versions=pin.version, position=pin.position, hard=is_hard, when=pin.when
            )


def hard_requests(recipe: Recipe, facts: Facts) -> list[VersionRequest]:
    """Return the versions that Spack must take on a place."""
    return [request for request in version_requests(recipe) if request.hard and request.when.holds(facts)]


def applied_couplings(recipe: Recipe, facts: Facts | None = None) -> list[Coupling]:
    """Return the couplings whose condition the recipe asks for. facts: of the place; without, anywhere."""
    requests = _requests_here(recipe, facts)
    return [rule for rule in recipe.couplings if any(_applies(rule, request) for request in requests)]


def _requests_here(recipe: Recipe, facts: Facts | None) -> list[VersionRequest]:
    return [request for request in version_requests(recipe) if facts is None or request.when.holds(facts) is not False]


def coupled_pins(recipe: Recipe, facts: Facts | None = None) -> dict[str, tuple[Pin, Coupling]]:
    """Return the hard pins that couplings add for packages whose version the recipe leaves open.

    facts: of the place, where only what holds there counts; without, what the recipe says anywhere does.
    """
    decided = {request.package for request in _requests_here(recipe, facts) if request.hard}
    found: dict[str, tuple[Pin, Coupling]] = {}
    for rule in applied_couplings(recipe, facts):
        for pin in rule.then:
            if pin.package not in decided:
                found.setdefault(pin.package, (replace(pin, reason=rule.reason), rule))
    return found


def unbuildable(recipe: Recipe, facts: Facts) -> Iterator[Problem]:
    """Yield what the recipe has on a place by a coupling that says it cannot be built."""
    here = {root.spec.package for root in recipe.roots if root.when.holds(facts) is not False}
    for rule in applied_couplings(recipe, facts):
        for package, what in rule.lacks.items():
            if package in here:
                yield Problem(
                    f"{package}, which goes with {rule.when}, would not build: {what}",
                    rule.position,
                    f"take another version, or give a recipe of your own the addition (packages/) and the rule "
                    f"`when: {rule.when}` without `lacks`",
                )


def load_recipe(name: str, unwritten: bytes | None = None) -> Recipe:
    """Return the recipe of that name or path, checked. unwritten: what stands for a file that is not there yet.

    Raises BadInput with everything that is wrong in it.
    """
    recipe = read_recipe(name, unwritten)
    checks = (_python_names, _roots_named_twice, _contradictions, _broken_couplings)
    BadInput.raise_any(problem for check in checks for problem in check(recipe))
    return recipe


def _of_spec(spec: Spec, position: Position, when: Condition = ALWAYS) -> Iterator[VersionRequest]:
    if spec.versions:
        yield VersionRequest(package=spec.package, versions=spec.versions, position=position, when=when)


def _applies(rule: Coupling, request: VersionRequest) -> bool:
    if request.package != rule.when.package or request.versions.single is None:
        return False
    return rule.when.versions is None or request.versions.intersects(rule.when.versions)


def _broken_couplings(recipe: Recipe) -> Iterator[Problem]:
    requests = list(version_requests(recipe))
    for rule in applied_couplings(recipe):
        for pin in rule.then:
            for request in requests:
                if request.package == pin.package and pin.version and not request.versions.intersects(pin.version):
                    yield Problem(
                        f"{pin.package}@{request.versions} does not go with {rule.when}, which needs "
                        f"{pin.package}@{pin.version}",
                        request.position,
                        f"the rule is at {rule.position}: {rule.reason}. "
                        f"Take {pin.package}@{pin.version}, or move both{in_your_own(request.position)}",
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
                    f"{package} is asked for at {other.versions} here and at {first.versions} elsewhere",
                    other.position,
                    f"the other request is at {first.position}; keep one{in_your_own(first.position)}",
                )


def _roots_named_twice(recipe: Recipe) -> Iterator[Problem]:
    """Yield root specs of one package that are in force at once: Spack would join them, or find no solution."""
    if recipe.unify == "when_possible":
        return
    for package, named in grouped((root.spec.package, root) for root in recipe.roots).items():
        for first, second in combinations(named, 2):
            if can_hold_together(first.when, second.when):
                yield Problem(
                    f"{package} is a root spec here and at {first.position}",
                    second.position,
                    "keep one; to change an inherited spec, write yours in the group that it is in; for both in one "
                    "image: `unify: when_possible`, and views that tell them apart",
                )


def _python_names(recipe: Recipe) -> Iterator[Problem]:
    pins = [(pin.package, pin.position) for pin in (*recipe.require.values(), *recipe.prefer.values())]
    for name, position in [*((root.spec.package, root.position) for root in recipe.roots), *pins]:
        if name in _names_of_python_packages():
            yield Problem(f"Spack has no package {name!r}", position, f"its name in Spack is py-{name}")


@functools.cache
def _names_of_python_packages() -> frozenset[str]:
    lines = (data_root() / RECIPE.folder / "python-names.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def load_tuning(names: Iterable[str], *, trusts_shipped: bool = True) -> Tuning:
    """Return the tuning files of those names as one, checked. Raises BadInput with every problem found.

    trusts_shipped: that those which ship contradict nobody, which is a test's to see, is not looked at again.
    """
    tuning = read_tuning(names)
    known = {variable.name for variable in tuning.variables}
    named = {setting.name for setting in tuning.set_together}.union(*(guard.variables for guard in tuning.guards))
    described = tuning.variables if named <= known else (*tuning.variables, *described_elsewhere(tuning))
    is_trusted = trusts_shipped and all(location.is_built_in for location in tuning.chain)
    BadInput.raise_any([*(() if is_trusted else contradictions(tuning)), *_undescribed(tuning, described)])
    return tuning


def load_tuning_file(name: str) -> Tuning:
    """Return one tuning file by its name or path; its sets and workarounds may set what other files describe.

    Raises BadInput with every problem found.
    """
    return load_tuning([name], trusts_shipped=False)


def contradictions(tuning: Tuning) -> Iterator[Problem]:
    """Yield settings that can hold at once, of one variable or of two that must not be set together.

    What others set may be the same value.
    """
    for one, other in _pairs(tuning.settings):
        if (one.name, one.value) == (other.name, other.value) and (tuning.set_by(one) or tuning.set_by(other)):
            continue
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
            yield Problem(f"{setting.name}: {wrong}", setting.position, "correct the value or the type")

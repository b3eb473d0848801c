"""What must hold within a recipe beyond its schema: known facts, one version a package, couplings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uenvtool.errors import Position, Problem, unknown
from uenvtool.model.condition import Condition
from uenvtool.model.recipe import Coupling, Pin, Recipe
from uenvtool.model.spec import Spec
from uenvtool.model.system import FACTS
from uenvtool.model.version import Versions


@dataclass(frozen=True, slots=True)
class Request:
    """A version that the recipe asks for somewhere. hard: Spack must take it."""

    package: str
    versions: Versions
    position: Position
    hard: bool = True


def requests(recipe: Recipe) -> Iterator[Request]:
    """Every version that the recipe asks for, in roots, compiler, Python, MPI and pins."""
    for group in recipe.groups:
        for root in group.specs:
            yield from _of_spec(root.spec, root.position)
    if recipe.compiler:
        yield from _of_spec(recipe.compiler.spec, recipe.compiler.position)
    pins = [*recipe.require.values(), *recipe.mpi.values(), *([recipe.python] if recipe.python else [])]
    for pin in pins:
        if pin.versions:
            yield Request(pin.package, pin.versions, pin.position)
    for pin in recipe.prefer.values():
        if pin.versions:
            yield Request(pin.package, pin.versions, pin.position, hard=False)


def applied_couplings(recipe: Recipe) -> list[Coupling]:
    """The couplings whose condition the recipe asks for."""
    asked = list(requests(recipe))
    return [rule for rule in recipe.couplings if any(_applies(rule, request) for request in asked)]


def coupled_pins(recipe: Recipe) -> dict[str, tuple[Pin, Coupling]]:
    """The hard pins that couplings add for packages whose version the recipe leaves open."""
    asked = {request.package for request in requests(recipe) if request.hard}
    found: dict[str, tuple[Pin, Coupling]] = {}
    for rule in applied_couplings(recipe):
        for pin in rule.then:
            if pin.package not in asked:
                found.setdefault(pin.package, (pin, rule))
    return found


def problems_of(recipe: Recipe) -> list[Problem]:
    """Everything that is wrong in a recipe that its schema cannot say."""
    return [*_unknown_facts(recipe), *_contradictions(recipe), *_broken_couplings(recipe)]


def _of_spec(spec: Spec, position: Position) -> Iterator[Request]:
    if spec.versions:
        yield Request(spec.package, spec.versions, position)


def _applies(rule: Coupling, request: Request) -> bool:
    """Whether a request is for one version, and that is one the rule speaks of."""
    if request.package != rule.when.package or request.versions.single is None:
        return False
    return rule.when.versions is None or request.versions.intersects(rule.when.versions)


def _broken_couplings(recipe: Recipe) -> Iterator[Problem]:
    asked = list(requests(recipe))
    for rule in applied_couplings(recipe):
        for pin in rule.then:
            for request in asked:
                if request.package == pin.package and pin.versions and not request.versions.intersects(pin.versions):
                    yield Problem(
                        f"{pin.package}@{request.versions} does not go with {rule.when}, which needs "
                        f"{pin.package}@{pin.versions}",
                        request.position,
                        f"the rule is at {rule.position}: {rule.reason}. "
                        f"Take {pin.package}@{pin.versions}, or move both",
                    )


def _contradictions(recipe: Recipe) -> Iterator[Problem]:
    hard: dict[str, list[Request]] = {}
    for request in requests(recipe):
        if request.hard:
            hard.setdefault(request.package, []).append(request)
    for package, asked in hard.items():
        first = asked[0]
        for other in asked[1:]:
            if not first.versions.intersects(other.versions):
                yield Problem(
                    f"{package} is asked for at {other.versions} here and at {first.versions} elsewhere",
                    other.position,
                    f"the other request is at {first.position}; keep one",
                )


def _unknown_facts(recipe: Recipe) -> Iterator[Problem]:
    placed: list[tuple[Condition, Position]] = [
        *((root.when, root.position) for group in recipe.groups for root in group.specs),
        *((group.when, group.position) for group in recipe.variants.values()),
        *((pin.when, pin.position) for pin in (*recipe.require.values(), *recipe.prefer.values())),
        *((variable.when, variable.position) for variable in recipe.view.env),
    ]
    for condition, position in placed:
        for term in condition.terms:
            if term.fact not in FACTS:
                yield unknown("fact", term.fact, FACTS, position)

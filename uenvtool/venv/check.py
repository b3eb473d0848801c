"""Checks that everything fits: each package's requirements against what is in effect, overlay before base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from uenvtool.core.errors import Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequest, UserRequirement
from uenvtool.venv.versions import counts_as_release, marker_environment, requirements, satisfies


def installed(site: Path) -> dict[str, Distribution]:
    """Read the distributions of a site-packages folder by normalized name, without running anything."""
    from importlib import metadata

    found: dict[str, Distribution] = {}
    for item in metadata.distributions(path=[str(site)]):
        name = item.metadata["Name"]
        if name:
            points = [point for point in item.entry_points if point.group == "console_scripts"]
            distribution = Distribution(
                name=name,
                version=item.version,
                folder=str(site),
                requires=tuple(item.requires or ()),
                extras=tuple(item.metadata.get_all("Provides-Extra") or ()),
                scripts={point.name: point.value for point in points},
                metadata=str(getattr(item, "_path", "")),
            )
            found.setdefault(distribution.key, distribution)
    return found


def conflict(
    asker: Distribution | UserRequirement, wants: str, name: str, present: Distribution | None, *, in_base: bool
) -> Problem:
    """Describe a requirement that does not hold, with the choices that a user has.

    present: what is in effect, None if nothing is. in_base: it is the base's.
    """
    of_user = isinstance(asker, UserRequirement)
    who = asker.origin if isinstance(asker, UserRequirement) else f"{asker.name} {asker.version}"
    position = asker.position if isinstance(asker, UserRequirement) else None
    if present is None:
        return Problem(f"{who} asks for {wants}, which is not there", position)
    where = "the base has" if in_base else "the overlay gets"
    other = "ask for another version, " if of_user else f"ask for another version of {asker.name}, "
    if in_base:
        rule = protected(name)
        cost = f" (protected: {rule.cost})" if rule else ""
        hint = f"{other}or replace the base's {name} with --override {name}{cost}"
    else:
        replaced = name if of_user else asker.name
        hint = f"{other}or of {name}, or replace the base's {replaced} too with --override {canonical(replaced)}"
    return Problem(f"{who} asks for {wants}; {where} {present.name} {present.version}", position, hint)


def conflicts(base: Base, new: Mapping[str, Distribution], request: UserRequest) -> list[Problem]:
    """Find all requirements that do not hold with `new` over the base, but for those that the base fails alone."""
    environment = marker_environment(base)
    staying = [package for name, package in sorted(base.packages.items()) if name not in new]
    before = {key for key, _ in _of_packages(staying, base, {}, environment)}
    found = [problem for _, problem in _of_packages(new.values(), base, new, environment)]
    found += [problem for key, problem in _of_packages(staying, base, new, environment) if key not in before]
    return [*found, *_of_user(base, new, request, environment)]


def as_releases(base: Base, new: Mapping[str, Distribution]) -> dict[str, list[str]]:
    """Find the base's pre-releases that count as releases here: name -> who relies on it, with what."""
    environment = marker_environment(base)
    staying = {name: package for name, package in base.packages.items() if name not in new}
    return grouped(
        (name, f"{distribution.name} asks for {requirement.specifier}")
        for distribution in new.values()
        for requirement in requirements(distribution, environment)
        if (name := canonical(requirement.name)) in staying
        and counts_as_release(requirement.specifier, staying[name].version)
    )


def _of_packages(
    askers: Iterable[Distribution], base: Base, new: Mapping[str, Distribution], environment: dict[str, str]
) -> Iterator[tuple[tuple[str, str], Problem]]:
    for asker in askers:
        for requirement in requirements(asker, environment):
            name = canonical(requirement.name)
            present = new.get(name) or base.packages.get(name)
            if name in new:
                holds = requirement.specifier.contains(new[name].version, prereleases=True)
            else:
                holds = present is not None and satisfies(requirement.specifier, present.version)
            if not holds:
                wants = f"{requirement.name}{requirement.specifier}"
                yield (asker.key, wants), conflict(asker, wants, name, present, in_base=name not in new)


def _of_user(
    base: Base, new: Mapping[str, Distribution], request: UserRequest, environment: dict[str, str]
) -> Iterator[Problem]:
    constrained = [constraint for constraint in request.constraints if constraint.name in new]
    for wanted in (*request.requirements, *constrained):
        requirement = wanted.requirement
        if requirement is None or requirement.url:
            continue
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        package = new.get(wanted.name) or base.packages.get(wanted.name)
        if package is not None and not satisfies(requirement.specifier, package.version):
            yield conflict(wanted, str(requirement), wanted.name, package, in_base=wanted.name not in new)

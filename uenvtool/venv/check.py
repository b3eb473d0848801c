"""Checks that everything fits: each package's requirements against what is in effect, overlay before base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.core.errors import Position, Problem
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequest
from uenvtool.venv.versions import canonical, counts_as_release, marker_environment, requirements, satisfies

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A requirement that does not hold.

    asker: the package that has it, None for the user. origin: who wants it, as the table shows it. wants: name
    and versions. name: of the wanted package. present: what is in effect, None if nothing is.
    """

    asker: Distribution | None
    origin: str
    wants: str
    name: str
    present: Distribution | None
    present_in_base: bool = False
    position: Position | None = None

    def problem(self) -> Problem:
        """The conflict with the choices that a user has."""
        who = f"{self.asker.name} {self.asker.version}" if self.asker else self.origin
        if self.present is None:
            return Problem(f"{who} asks for {self.wants}, which is not there", self.position)
        where = "the base has" if self.present_in_base else "the overlay gets"
        message = f"{who} asks for {self.wants}; {where} {self.present.name} {self.present.version}"
        return Problem(message, self.position, self._choices())

    def _choices(self) -> str:
        rule = protected(self.name)
        other = f"ask for another version of {self.asker.name}, " if self.asker else "ask for another version, "
        if not self.present_in_base:
            asker = self.asker.name if self.asker else self.name
            return f"{other}or of {self.name}, or replace the base's {asker} too with --override {canonical(asker)}"
        cost = f" (protected: {rule.cost})" if rule else ""
        return f"{other}or replace the base's {self.name} with --override {self.name}{cost}"


def installed(site: Path) -> dict[str, Distribution]:
    """The distributions of a site-packages folder by normalized name, read without running anything."""
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


def conflicts(base: Base, new: Mapping[str, Distribution], request: UserRequest) -> list[Conflict]:
    """All requirements that do not hold with `new` over the base, but for those that the base fails alone."""
    environment = marker_environment(base)
    found = [*_of_packages(new.values(), base, new, environment)]
    before = {_identity(conflict) for conflict in _of_base(base, {}, environment)}
    found += [conflict for conflict in _of_base(base, new, environment) if _identity(conflict) not in before]
    return [*found, *_of_user(base, new, request, environment)]


def _identity(conflict: Conflict) -> tuple[str, str]:
    return conflict.asker.key if conflict.asker else "", conflict.wants


def as_releases(base: Base, new: Mapping[str, Distribution]) -> dict[str, list[str]]:
    """The base's pre-releases that count as releases here: name -> who relies on it, with what."""
    environment = marker_environment(base)
    found: dict[str, list[str]] = {}
    for distribution in new.values():
        for requirement in requirements(distribution, environment):
            name = canonical(requirement.name)
            package = None if name in new else base.packages.get(name)
            if package is not None and counts_as_release(requirement.specifier, package.version):
                found.setdefault(name, []).append(f"{distribution.name} asks for {requirement.specifier}")
    return found


def _of_base(base: Base, new: Mapping[str, Distribution], environment: dict[str, str]) -> Iterator[Conflict]:
    staying = [package for name, package in sorted(base.packages.items()) if name not in new]
    return _of_packages(staying, base, new, environment)


def _of_packages(
    askers: Iterable[Distribution], base: Base, new: Mapping[str, Distribution], environment: dict[str, str]
) -> Iterator[Conflict]:
    for asker in askers:
        for requirement in requirements(asker, environment):
            name = canonical(requirement.name)
            if _holds(requirement, base.packages.get(name), new.get(name)):
                continue
            yield Conflict(
                asker=asker,
                origin=asker.name,
                wants=f"{requirement.name}{requirement.specifier}",
                name=name,
                present=new.get(name) or base.packages.get(name),
                present_in_base=name not in new,
            )


def _holds(requirement: Requirement, in_base: Distribution | None, new: Distribution | None) -> bool:
    """Tell if a requirement is met by what is new, else by what the base has."""
    if new is not None:
        return requirement.specifier.contains(new.version, prereleases=True)
    return in_base is not None and satisfies(requirement.specifier, in_base.version)


def _of_user(
    base: Base, new: Mapping[str, Distribution], request: UserRequest, environment: dict[str, str]
) -> Iterator[Conflict]:
    """The user's own requirements, and constraints on what was installed."""
    constrained = [constraint for constraint in request.constraints if constraint.name in new]
    for wanted in (*request.requirements, *constrained):
        requirement = wanted.requirement
        if requirement is None or requirement.url or not wanted.name:
            continue
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        package = new.get(wanted.name) or base.packages.get(wanted.name)
        if package is not None and not satisfies(requirement.specifier, package.version):
            yield Conflict(
                asker=None,
                origin=wanted.origin,
                wants=str(requirement),
                name=wanted.name,
                present=package,
                present_in_base=wanted.name not in new,
                position=wanted.position,
            )

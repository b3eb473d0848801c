"""Whether everything fits: each package's requirements against what is in effect, overlay before base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.errors import Position, Problem
from uenvtool.overlay.base import Base, Distribution
from uenvtool.overlay.protect import protected
from uenvtool.overlay.requirements import Request
from uenvtool.overlay.versions import canonical, counts_as_release, marker_environment, requirements, satisfies


@dataclass(frozen=True, slots=True)
class Conflict:
    """A requirement that does not hold: who asks for what, and what is there (None: nothing)."""

    asker: Distribution | None
    origin: str
    wants: str
    name: str
    there: Distribution | None
    there_in_base: bool = False
    position: Position | None = None

    def problem(self) -> Problem:
        """The conflict with the choices that a user has."""
        who = f"{self.asker.name} {self.asker.version}" if self.asker else self.origin
        if self.there is None:
            return Problem(f"{who} asks for {self.wants}, which is not there", self.position)
        where = "the base has" if self.there_in_base else "the overlay gets"
        message = f"{who} asks for {self.wants}; {where} {self.there.name} {self.there.version}"
        return Problem(message, self.position, self._choices())

    def _choices(self) -> str:
        rule = protected(self.name)
        other = f"ask for another version of {self.asker.name}, " if self.asker else "ask for another version, "
        if not self.there_in_base:
            asker = self.asker.name if self.asker else self.name
            return f"{other}or of {self.name}, or replace the base's {asker} too with --override {canonical(asker)}"
        cost = f" (protected: {rule.cost})" if rule else ""
        return f"{other}or replace the base's {self.name} with --override {self.name}{cost}"


def installed(site: Path) -> dict[str, Distribution]:
    """The distributions of a site-packages folder by normalized name, read without running anything."""
    from importlib import metadata

    found: dict[str, Distribution] = {}
    for each in metadata.distributions(path=[str(site)]):
        name = each.metadata["Name"]
        if name:
            scripts = {point.name: point.value for point in each.entry_points if point.group == "console_scripts"}
            distribution = Distribution(
                name,
                each.version,
                str(site),
                tuple(each.requires or ()),
                tuple(each.metadata.get_all("Provides-Extra") or ()),
                scripts,
                str(getattr(each, "_path", "")),
            )
            found.setdefault(distribution.key, distribution)
    return found


def conflicts(base: Base, new: Mapping[str, Distribution], request: Request) -> list[Conflict]:
    """All requirements that do not hold with `new` over the base, but for those that the base fails alone."""
    environment = marker_environment(base)
    found = [*_of_packages(new.values(), base, new, environment)]
    before = {(each.asker.key if each.asker else "", each.wants) for each in _of_base(base, {}, environment)}
    for each in _of_base(base, new, environment):
        if each.asker and (each.asker.key, each.wants) not in before:
            found.append(each)
    return [*found, *_of_user(base, new, request, environment)]


def as_releases(base: Base, new: Mapping[str, Distribution]) -> dict[str, list[str]]:
    """The base's pre-releases that count as releases here: name -> who relies on it, with what."""
    environment = marker_environment(base)
    found: dict[str, list[str]] = {}
    for distribution in new.values():
        for requirement in requirements(distribution, environment):
            name = canonical(requirement.name)
            there = None if name in new else base.packages.get(name)
            if there is not None and counts_as_release(requirement.specifier, there.version):
                found.setdefault(name, []).append(f"{distribution.name} asks for {requirement.specifier}")
    return found


def _of_base(base: Base, new: Mapping[str, Distribution], environment: dict[str, str]) -> Iterator[Conflict]:
    staying = [each for name, each in sorted(base.packages.items()) if name not in new]
    return _of_packages(staying, base, new, environment)


def _of_packages(
    askers: Iterable[Distribution], base: Base, new: Mapping[str, Distribution], environment: dict[str, str]
) -> Iterator[Conflict]:
    for asker in askers:
        for requirement in requirements(asker, environment):
            name = canonical(requirement.name)
            there = new.get(name) or base.packages.get(name)
            in_base = name not in new
            holds = there is not None and (
                satisfies(requirement.specifier, there.version)
                if in_base
                else requirement.specifier.contains(there.version, prereleases=True)
            )
            if not holds:
                wants = f"{requirement.name}{requirement.specifier}"
                yield Conflict(asker, asker.name, wants, name, there, in_base)


def _of_user(
    base: Base, new: Mapping[str, Distribution], request: Request, environment: dict[str, str]
) -> Iterator[Conflict]:
    """The user's own requirements, and constraints on what was installed."""
    constrained = [each for each in request.constrained if each.name in new]
    for asked in (*request.asked, *constrained):
        requirement = asked.requirement
        if requirement is None or requirement.url or not asked.name:
            continue
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        there = new.get(asked.name) or base.packages.get(asked.name)
        if there is not None and not satisfies(requirement.specifier, there.version):
            yield Conflict(
                None, asked.origin, str(requirement), asked.name, there, asked.name not in new, asked.position
            )

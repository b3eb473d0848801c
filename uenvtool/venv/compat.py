"""Says what fits: a version and a requirement, new packages and the base, and what of the base is protected."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.core.errors import Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.requirements import UserRequest, UserRequirement

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

CONDA_BUILD = 100
"""From here on the number of a post-release is a build of conda-forge's; makers count theirs from 1."""
DATA = Path(__file__).parent / "protected.yaml"


def as_release(version: str) -> str:
    """Return the release that a vendor's build was made from: 2.6.0a0+d883142 -> 2.6.0+d883142.

    NVIDIA and Spack build a release's sources, which call themselves a pre-release until they are
    tagged; PEP 440 sorts them before the release, so that `>=2.6` would not hold. conda-forge gives torch its
    build number, 2.4.1.post300, so that `==2.4.1` would not hold (pytorch-cpu-feedstock issue 315, 2025-01).
    """
    from packaging.version import Version

    parsed = Version(version)
    local = f"+{parsed.local}" if parsed.local else ""
    is_build = parsed.is_prerelease or (parsed.post or 0) >= CONDA_BUILD
    return f"{parsed.base_version}{local}" if is_build else version


def is_version(text: str) -> bool:
    """Tell if a version is one that resolvers understand (PEP 440); some distributions' are not."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def newer(one: str, other: str) -> bool:
    """Tell if one version is newer than another."""
    from packaging.version import Version

    return is_version(one) and is_version(other) and Version(one) > Version(other)


def floor(version: str) -> str:
    """Return the oldest version that is no breaking step away: of the same major version, below 1.0 the same minor.

    Empty if the version is none that resolvers understand. Of 2026.1 it is 2026, of 0.12.3 it is 0.12.
    """
    from packaging.version import Version

    if not is_version(version):
        return ""
    parsed = Version(version)
    epoch = f"{parsed.epoch}!" if parsed.epoch else ""
    return f"{epoch}{parsed.major}" if parsed.major else f"{epoch}0.{parsed.minor}"


def satisfies(specifier: SpecifierSet, version: str) -> bool:
    """Tell if a version in the base satisfies a requirement; a vendor's build counts as its release too."""
    if not is_version(version):
        return True  # nothing can be said of it, and the base works with it
    return specifier.contains(version, prereleases=True) or specifier.contains(as_release(version), prereleases=True)


def counts_as_release(specifier: SpecifierSet, version: str) -> bool:
    """Tell if it satisfies only because a vendor's build counts as its release."""
    return is_version(version) and not specifier.contains(version, prereleases=True) and satisfies(specifier, version)


def marker_environment(base: Base) -> dict[str, str]:
    """Return the values of PEP 508 markers for the base's Python on this machine."""
    from packaging.markers import default_environment

    return {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": base.minor,
        "python_full_version": base.version,
        "implementation_name": "cpython",
        "implementation_version": base.version,
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def requirements(distribution: Distribution, environment: dict[str, str] | None) -> Iterator[Requirement]:
    """Read what a distribution requires on this machine without extras; everything if no environment is given."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in distribution.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # an old build tool wrote it; pip leaves it out too
        if environment is None or requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class Protection:
    """One line of protected.yaml.

    cost: what replacing the package costs. refuse_missing: it is not installed for another package beside a base
    that has torch. harmless: names that the pattern covers and that carry no library.
    """

    pattern: str
    cost: str
    refuse_missing: bool
    harmless: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """Tell if the rule is about a normalized name."""
        return fnmatch.fnmatchcase(name, self.pattern) and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in self.harmless
        )


@functools.cache
def rules() -> tuple[Protection, ...]:
    """Return the rules in their order."""
    import yaml

    data = yaml.load(DATA.read_bytes(), Loader=yaml.CSafeLoader)
    return tuple(
        Protection(
            pattern=rule["name"],
            cost=" ".join(rule["cost"].split()),
            refuse_missing=rule["missing"] == "refuse",
            harmless=tuple(rule.get("except", ())),
        )
        for rule in data["protected"]
    )


def protected(name: str) -> Protection | None:
    """Return the rule that protects a normalized name; None if nothing does."""
    return next((rule for rule in rules() if rule.covers(name)), None)


def conflict(
    asker: Distribution | UserRequirement, wants: str, name: str, present: Distribution | None, *, in_base: bool
) -> Problem:
    """Describe a requirement that does not hold, with the choices that a user has.

    present: what is in effect, None if nothing is. in_base: it is the base's.
    """
    who = asker.origin if isinstance(asker, UserRequirement) else f"{asker.name} {asker.version}"
    position = asker.position if isinstance(asker, UserRequirement) else None
    if present is None:
        return Problem(f"{who} asks for {wants}, which is not there", position)
    where = "the base has" if in_base else "the overlay gets"
    if in_base:
        rule = protected(name)
        cost = f" (protected: {rule.cost})" if rule else ""
        other = f"ask for another version of {asker.name}"
        hint = f"{other}, or replace the base's {name} with --override {name}{cost}"
    else:
        replaced = canonical(asker.name)
        hint = f"ask for other versions, or replace the base's {replaced} too with --override {replaced}"
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

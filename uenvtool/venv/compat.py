"""Checks whether versions satisfy requirements and whether new packages fit the base, and reads protected.yaml."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.core.errors import Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.requirements import COMMAND_LINE, UserRequest, UserRequirement

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

CONDA_BUILD = 100
"""Post-release numbers of 100 or more are conda-forge build numbers; upstream projects count theirs from 1."""
DATA = Path(__file__).parent / "protected.yaml"


def as_release(version: str) -> str:
    """Return the release that a vendor's build was made from: 2.6.0a0+d883142 -> 2.6.0+d883142.

    NVIDIA and Spack build sources that have a pre-release version until the release is tagged. PEP 440 sorts this
    version before the release, so `>=2.6` would fail. conda-forge appends its build number to torch's version, as in
    2.4.1.post300, so `==2.4.1` would fail (pytorch-cpu-feedstock issue 315, 2025-01).
    """
    from packaging.version import Version

    parsed = Version(version)
    local = f"+{parsed.local}" if parsed.local else ""
    is_build = parsed.is_prerelease or (parsed.post or 0) >= CONDA_BUILD
    return f"{parsed.base_version}{local}" if is_build else version


def is_version(text: str) -> bool:
    """Return whether a version is valid (PEP 440); some distributions have invalid ones."""
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def newer(version: str, other: str) -> bool:
    """Return whether a version is newer than another; False if either of them is invalid."""
    from packaging.version import Version

    return is_version(version) and is_version(other) and Version(version) > Version(other)


def floor(version: str) -> str:
    """Return the oldest version that should be compatible with a version, or an empty string if that is invalid.

    The oldest compatible version has the same major version, such as 2026 for 2026.1. Below 1.0, it has the same minor
    version, such as 0.12 for 0.12.3.
    """
    from packaging.version import Version

    if not is_version(version):
        return ""
    parsed = Version(version)
    epoch = f"{parsed.epoch}!" if parsed.epoch else ""
    return f"{epoch}{parsed.major}" if parsed.major else f"{epoch}0.{parsed.minor}"


def satisfies(specifier: SpecifierSet, version: str) -> bool:
    """Return whether a base package's version meets a requirement. A vendor's build also counts as its release."""
    if not is_version(version):
        return True  # it cannot be compared, and the base works with it
    return specifier.contains(version, prereleases=True) or specifier.contains(as_release(version), prereleases=True)


def counts_as_release(specifier: SpecifierSet, version: str) -> bool:
    """Return whether a version satisfies a requirement only because a vendor's build counts as its release."""
    return is_version(version) and not specifier.contains(version, prereleases=True) and satisfies(specifier, version)


def fits(requested: UserRequirement, package: Distribution | None, environment: dict[str, str]) -> bool:
    """Return whether a package of the base satisfies a requirement, or the requirement does not apply here."""
    requirement = requested.requirement
    if requirement is None:
        return False
    if requirement.marker and not requirement.marker.evaluate(environment):
        return True
    return not requirement.url and package is not None and satisfies(requirement.specifier, package.version)


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
    """Yield the requirements of a distribution whose markers hold; without an environment, yield all requirements."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in distribution.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # an old build tool wrote it; pip ignores it too
        if environment is None or requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement


@dataclass(frozen=True, kw_only=True, slots=True)
class Protection:
    """One rule of protected.yaml, which protects the base's packages whose names match `pattern`.

    cost: the consequence of replacing the package. refuse_missing: whether uenvtool refuses to add this package as a
    dependency if the base has torch but not this package. harmless: patterns for packages that match `pattern` but
    contain no library.
    """

    pattern: str
    cost: str
    refuse_missing: bool
    harmless: Sequence[str] = ()

    def covers(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.pattern) and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in self.harmless
        )


@functools.cache
def rules() -> tuple[Protection, ...]:
    """Return the rules of protected.yaml in file order."""
    import yaml

    data = yaml.load(DATA.read_bytes(), Loader=yaml.CSafeLoader)
    return tuple(Protection(**rule) for rule in data["protected"])


def protected(name: str) -> Protection | None:
    """Return the rule that protects a normalized name, or None if no rule does."""
    return next((rule for rule in rules() if rule.covers(name)), None)


def _conflict(
    requirer: Distribution | UserRequirement, needed: str, name: str, present: Distribution | None, *, in_base: bool
) -> Problem:
    who = requirer.origin if isinstance(requirer, UserRequirement) else f"{requirer.name} {requirer.version}"
    position = requirer.position if isinstance(requirer, UserRequirement) else None
    needs = f"{who} {'require' if who == COMMAND_LINE else 'requires'} {needed}"
    if present is None:
        return Problem(f"{needs}, which is not installed", position)
    owner = "the base has" if in_base else "the overlay would have"
    if in_base:
        rule = protected(name)
        cost = f" (protected: {rule.cost})" if rule else ""
        another_version = f"request another version of {requirer.name}"
        hint = f"{another_version}, or replace the base's {name} with --override {name}{cost}"
    else:
        replaced = canonical(requirer.name)
        hint = f"request other versions, or also replace the base's {replaced} with --override {replaced}"
    return Problem(f"{needs}, but {owner} {present.name} {present.version}", position, hint)


def conflicts(base: Base, new: Mapping[str, Distribution], request: UserRequest) -> list[Problem]:
    """Return a problem for each requirement that is not met once `new` is installed on top of the base.

    Requirements that the base alone already violates are not reported.
    """
    environment = marker_environment(base)
    kept = [package for name, package in sorted(base.packages.items()) if name not in new]
    failing_already = {key for key, _ in _of_packages(kept, base, {}, environment)}
    problems = [problem for _, problem in _of_packages(new.values(), base, new, environment)]
    problems += [problem for key, problem in _of_packages(kept, base, new, environment) if key not in failing_already]
    return [*problems, *_of_user(base, new, request, environment)]


def as_releases(base: Base, new: Mapping[str, Distribution]) -> dict[str, list[str]]:
    """Return, by base package, the requirements that it meets only because a vendor's build counts as a release."""
    environment = marker_environment(base)
    kept = {name: package for name, package in base.packages.items() if name not in new}
    return grouped(
        (name, f"{distribution.name} requires {requirement.specifier}")
        for distribution in new.values()
        for requirement in requirements(distribution, environment)
        if (name := canonical(requirement.name)) in kept
        and counts_as_release(requirement.specifier, kept[name].version)
    )


def _of_packages(
    requirers: Iterable[Distribution], base: Base, new: Mapping[str, Distribution], environment: dict[str, str]
) -> Iterator[tuple[tuple[str, str], Problem]]:
    for requirer in requirers:
        for requirement in requirements(requirer, environment):
            name = canonical(requirement.name)
            present = new.get(name) or base.packages.get(name)
            if name in new:
                holds = requirement.specifier.contains(new[name].version, prereleases=True)
            else:
                holds = present is not None and satisfies(requirement.specifier, present.version)
            if not holds:
                text = f"{requirement.name}{requirement.specifier}"
                yield (requirer.key, text), _conflict(requirer, text, name, present, in_base=name not in new)


def _of_user(
    base: Base, new: Mapping[str, Distribution], request: UserRequest, environment: dict[str, str]
) -> Iterator[Problem]:
    constrained = [constraint for constraint in request.constraints if constraint.name in new]
    for named in (*request.requirements, *constrained):
        package = new.get(named.name) or base.packages.get(named.name)
        if package is not None and named.is_of_index and not fits(named, package, environment):
            yield _conflict(named, str(named.requirement), named.name, package, in_base=named.name not in new)

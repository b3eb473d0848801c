"""Says when a base's version satisfies a requirement: as PEP 440 has it, and as vendors number their builds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    from uenvtool.venv.base import Base, Distribution

CONDA_BUILD = 100
"""From here on the number of a post-release is a build of conda-forge's; makers count theirs from 1."""


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

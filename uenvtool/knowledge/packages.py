"""Knowledge of packages: versions that must match, that have vulnerabilities, or that their developers withdrew.

It applies to every recipe that has the package, including converted recipes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position
from uenvtool.knowledge.bind import Key, SpecText, bound
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.kinds import PACKAGES
from uenvtool.knowledge.load import once_if_shipped, usable_files
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.spec import Spec
from uenvtool.knowledge.version import Version, Versions


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """The required or preferred version and variants of a package, or the provider of a virtual package."""

    shorthand: ClassVar[str] = "version"
    package: Key
    version: Versions | None = None
    variants: SpecText = ""
    position: Position
    reason: str = ""
    when: Condition = ALWAYS
    provider: SpecText = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coupling:
    """Versions that must match: if the recipe requests `when`, the packages in `then` must have these versions."""

    when: Spec
    then: tuple[Pin, ...]
    lacks: dict[str, str] = field(default_factory=dict)
    position: Position
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Vulnerability:
    """A known vulnerability in versions of a package."""

    id: str
    package: str
    versions: Versions
    fixed: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Yanked:
    """Versions of a package that their developers withdrew. reason: The defect of these versions."""

    package: str
    versions: Versions
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageFacts:
    """The facts of one file, or of all files."""

    couplings: tuple[Coupling, ...] = ()
    cves: tuple[Vulnerability, ...] = ()
    yanked: tuple[Yanked, ...] = ()

    def about(self, versions_of: Mapping[str, Collection[str]]) -> PackageFacts:
        """Return the vulnerabilities and the withdrawals of these versions. versions_of: The versions by package."""

        def applies(entry: Vulnerability | Yanked) -> bool:
            known = versions_of.get(entry.package, ())
            return any(entry.versions.contains(Version(version)) for version in known)

        return PackageFacts(cves=tuple(filter(applies, self.cves)), yanked=tuple(filter(applies, self.yanked)))


def load_package_facts(name: str) -> PackageFacts:
    """Return the facts in the file with this name or path. Raises BadInput with all problems."""
    return _load(locate(PACKAGES, name))


@once_if_shipped
def _load(location: Location) -> PackageFacts:
    return bound(PackageFacts, location, PACKAGES)


def package_facts() -> PackageFacts:
    """Return the facts of all files. An entry in a file of the user replaces the same entry in a built-in file."""
    locations = sorted(usable_files(PACKAGES).values(), key=lambda location: not location.is_built_in)
    files = [_load(location) for location in locations]
    return PackageFacts(
        couplings=tuple({rule.when.text: rule for facts in files for rule in facts.couplings}.values()),
        cves=tuple({(cve.id, cve.package): cve for facts in files for cve in facts.cves}.values()),
        yanked=tuple({(row.package, row.versions.text): row for facts in files for row in facts.yanked}.values()),
    )

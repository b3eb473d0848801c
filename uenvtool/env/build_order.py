"""In which order a lock's packages can be built: what can be built at once, and the longest chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uenvtool.env.lock import Lock, Package


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """The order of a build.

    waves: packages that can be built at once, each wave after the ones before it. chain: the packages
    of the longest chain, in which each waits for the one before it. external: what the system brings.
    """

    waves: Sequence[Sequence[Package]]
    chain: Sequence[Package]
    external: Sequence[Package]

    @property
    def count(self) -> int:
        """How many packages there are to build."""
        return sum(len(wave) for wave in self.waves)


def build_order(lock: Lock) -> BuildOrder:
    """The order in which the packages of a lock can be built; each list is sorted by name."""
    packages = sorted(lock.packages, key=lambda package: (package.name, package.version, package.hash))
    built = {package.hash: package for package in packages if not package.external}
    waits_for: dict[str, str] = {}
    depths: dict[str, int] = {}
    for key in _dependencies_first(built):
        deepest = max((need for need in built[key].dependencies if need in built), key=depths.__getitem__, default="")
        waits_for[key] = deepest
        depths[key] = depths[deepest] + 1 if deepest else 0
    waves: list[list[Package]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for key, package in built.items():
        waves[depths[key]].append(package)
    chain: list[Package] = []
    last = max(depths, key=depths.__getitem__, default="")
    while last:
        chain.append(built[last])
        last = waits_for[last]
    return BuildOrder(waves=waves, chain=chain[::-1], external=[package for package in packages if package.external])


def _dependencies_first(packages: dict[str, Package]) -> list[str]:
    """The hashes of packages, each behind what it needs. Raises ValueError if there is a circle."""
    from graphlib import CycleError, TopologicalSorter

    needs = {key: [need for need in package.dependencies if need in packages] for key, package in packages.items()}
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ValueError("packages that need each other") from error

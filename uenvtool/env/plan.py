"""`uenvtool build --plan`: what building an image takes, before it is begun."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput, Position, ToolFailed
from uenvtool.core.files import read_bytes, remove_file
from uenvtool.core.result import Progress, Result, Table
from uenvtool.core.value import value_class
from uenvtool.core.words import size_text
from uenvtool.env.environment import Environment
from uenvtool.env.folder import LOG
from uenvtool.env.install import usual_stores
from uenvtool.env.installable import read_installable
from uenvtool.env.next_steps import build_again, build_image
from uenvtool.env.program import find_spack, repository_folders
from uenvtool.env.request import BuildRequest
from uenvtool.env.sources import Source, downloaded_bytes, sources_of
from uenvtool.knowledge.lock import LOCK, Lock, Package
from uenvtool.knowledge.system import NodeType

LARGEST_TIMES = 1 << 20
MOST_JOBS = 16
"""Processes of a build if nobody says how many: Spack v1.1.0, etc/spack/defaults/base/config.yaml, build_jobs."""


@value_class
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


def show_plan(environment: Environment, folder: Path, request: BuildRequest, progress: Progress) -> Result:
    """Return what is built, in which order, on which cores and disk, and the downloads if Spack is here to list them.

    A download's size is known if it was downloaded before, or is in the mirror that the request names; how long a
    package takes, if one of its name lies in a store of this user's. Raises BadInput if the environment is not resolved
    yet.
    """
    resolved = read_installable(folder)
    try:
        order = build_order(resolved.lock)
    except ValueError as error:
        raise BadInput(
            f"the lock has {error}", Position(str(folder / LOCK)), "`uenvtool build RECIPE` makes it again"
        ) from error
    spack = find_spack(request.spack)
    repos = repository_folders(request.repos, environment.pins)
    sources: list[Source] = []
    again = f"{build_again(environment, folder)} --plan --spack PATH"
    notes = [] if spack else [f"Spack is not here: the downloads are not known; `{again}` lists them"]
    if spack is not None:
        try:
            with progress("listing sources"):
                sources = sources_of(spack, environment, resolved, repos=repos, log=folder / LOG)
        except ToolFailed as error:
            remove_file(folder / LOG)
            notes = [f"the downloads are not known: {error.problems[0].message}"]
    seconds = install_seconds()
    if not (times := _times(order, seconds)):
        notes.append("how long it takes is not known: you built none of these packages before")
    sizes = {source.url: downloaded_bytes(source, request.mirror) for source in sources}
    lines = [*_order(order, resolved.mount), *times, *_machine(order, environment.node)]
    return Result(
        data={**_data(order, resolved.mount, sources, sizes), "seconds": seconds},
        text="\n".join([*lines, *_download_sizes(sources, sizes)]),
        tables=(
            Table(
                headings=("wave", "packages", "which can be built at once, when the waves before are"),
                rows=[
                    (str(number), str(len(wave)), ", ".join(map(str, wave)))
                    for number, wave in enumerate(order.waves, start=1)
                ],
            ),
            *([_downloads(sources, sizes)] if sources else []),
        ),
        notes=tuple(notes),
        next=(f"{build_image(folder, spack=spack, repos=repos)}  # on a node of {environment.system.name}",),
    )


def install_seconds() -> dict[str, float]:
    """Return how long packages took that lie in the stores of this user's cache, as Spack wrote it, by name."""
    found: dict[str, float] = {}
    for file in sorted(usual_stores().glob("*/*/*/.spack/install_times.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            times = json.loads(read_bytes(file, LARGEST_TIMES))
            if not times.get("cache"):
                found[str(times["name"])] = max(float(times["total"]), found.get(str(times["name"]), 0))
    return found


def build_order(lock: Lock) -> BuildOrder:
    """Return the order in which the packages of a lock can be built; each list is sorted by name.

    Raises ValueError if packages need each other.
    """
    from graphlib import CycleError, TopologicalSorter

    packages = sorted(lock.packages, key=lambda package: (package.name, package.version, package.hash))
    built = {package.hash: package for package in packages if not package.external}
    sorter = TopologicalSorter({key: built.keys() & package.dependencies for key, package in built.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError("packages that need each other") from error
    waves: list[list[Package]] = []
    while sorter.is_active():
        ready = set(sorter.get_ready())
        waves.append([package for key, package in built.items() if key in ready])
        sorter.done(*ready)
    chain: list[Package] = []
    for wave in reversed(waves):
        chain.append(next(package for package in wave if not chain or package.hash in chain[-1].dependencies))
    return BuildOrder(waves=waves, chain=chain[::-1], external=[package for package in packages if package.external])


def _order(order: BuildOrder, mount: str) -> list[str]:
    widest = max((len(wave) for wave in order.waves), default=0)
    system, first = _externals(order, mount)
    return [
        f"{order.count} packages to build; {len(system)} of the system; at most {widest} can be built at once",
        *(f"before them {name}, with what it needs, which is resolved on the node and not counted" for name in first),
        f"of the system: {', '.join(system) or 'none'}",
        f"the critical path has {len(order.chain)} packages, each waits for the one before it: "
        + " > ".join(map(str, order.chain)),
    ]


def _times(order: BuildOrder, seconds: Mapping[str, float]) -> list[str]:
    """Return how long earlier builds took; their versions and machines may have been others."""
    known = [seconds[package.name] for wave in order.waves for package in wave if package.name in seconds]
    on_path = sum(seconds.get(package.name, 0) for package in order.chain)
    shown = f"time: you built {len(known)} of {order.count} before, in {sum(known) / 60:.1f} minutes"
    return [f"{shown}, {on_path / 60:.1f} of them on the critical path"] if known else []


def _externals(order: BuildOrder, mount: str) -> tuple[list[str], list[str]]:
    """Return what the system brings, and what an environment of its own installs into the image first: the compiler."""
    first = [package for package in order.external if package.external.startswith(f"{mount}/")]
    return [str(package) for package in order.external if package not in first], [str(one) for one in first]


def _machine(order: BuildOrder, node: NodeType) -> list[str]:
    """Return what a node has to do, and the disk that it is done on."""
    shared = sum(len(wave) > 1 for wave in order.waves)
    has = f"a {node.uarch} node has {node.cores}; " if node.cores else ""
    stores = usual_stores()
    free_bytes = shutil.disk_usage(next(folder for folder in (stores, *stores.parents) if folder.exists())).free
    return [
        f"cores: {has}Spack builds one package at a time on a node, with at most {MOST_JOBS} processes unless --jobs "
        f"says more; further nodes find work in {shared} of {len(order.waves)} waves",
        "disk: no lock says how large a package will be; packages are built and kept in the store, "
        f"by default in {stores}, which has {free_bytes / 1e9:.1f} GB free here; --store names another disk",
    ]


def _download_sizes(sources: Sequence[Source], sizes: Mapping[str, int | None]) -> list[str]:
    if not sources:
        return []
    known = [size for size in sizes.values() if size is not None]
    unknown = len(sources) - len(known)
    if not known:
        return [f"{len(sources)} downloads; no size is known, since neither Spack's cache nor --mirror has one"]
    rest = f"; no size is known of {unknown}, which neither Spack's cache nor --mirror has" if unknown else ""
    return [f"{len(sources)} downloads: {size_text(sum(known))} in {len(known)}{rest}"]


def _downloads(sources: Sequence[Source], sizes: Mapping[str, int | None]) -> Table:
    shown = {url: "unknown" if size is None else size_text(size) for url, size in sizes.items()}
    return Table(
        headings=("download for", "size", "url"),
        rows=[(source.package, shown[source.url], source.url) for source in sources],
    )


def _data(
    order: BuildOrder, mount: str, sources: Sequence[Source], sizes: Mapping[str, int | None]
) -> dict[str, object]:
    system, first = _externals(order, mount)
    return {
        "packages": order.count,
        "waves": [list(map(str, wave)) for wave in order.waves],
        "chain": list(map(str, order.chain)),
        "external": system,
        "first": first,
        "downloads": [{"package": source.package, "url": source.url, "bytes": sizes[source.url]} for source in sources],
    }

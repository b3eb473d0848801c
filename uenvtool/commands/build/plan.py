"""`uenvtool build --plan`: what building an image takes, before it is begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uenvtool.commands.build.next_steps import build_again, build_image, usual_folder
from uenvtool.commands.build.request import BuildRequest
from uenvtool.errors import BadInput, Position
from uenvtool.result import Progress, Result, Table
from uenvtool.spack.build_order import BuildOrder, build_order
from uenvtool.spack.environment import Environment
from uenvtool.spack.folder import LOCK
from uenvtool.spack.installable import read_installable
from uenvtool.spack.lock import Package
from uenvtool.spack.program import find_spack, repository_folder
from uenvtool.spack.sources import Source, downloaded_bytes, sources_of

LOG = ".uenvtool-concretize.log"


def show_plan(environment: Environment, request: BuildRequest, progress: Progress) -> Result:
    """The packages to build in their order, the longest chain, and the downloads if Spack is here to list them.

    A download's size is known if it was downloaded before, or is in the mirror that the request names.
    Raises BadInput if the environment is not resolved yet, ToolFailed if Spack fails.
    """
    folder = request.output or usual_folder(environment)
    resolved = read_installable(folder)
    try:
        order = build_order(resolved.lock)
    except ValueError as error:
        raise BadInput(
            f"the lock has {error}", Position(str(folder / LOCK)), "make it again: uenvtool build"
        ) from error
    spack = find_spack(request.spack)
    repos = {name: repository_folder(name, path) for name, path in request.repos.items()}
    sources: list[Source] = []
    if spack is not None:
        with progress("listing sources"):
            sources = sources_of(spack, environment, resolved, repos=repos, log=folder / LOG)
    sizes = {source.url: downloaded_bytes(source, request.mirror) for source in sources}
    again = f"{build_again(environment, folder)} --plan --spack PATH"
    notes = [] if spack else [f"Spack is not here: the downloads are not known; {again} lists them"]
    return Result(
        data=_data(order, sources, sizes),
        text=_summary(order, sources, sizes),
        tables=(
            Table(headings=("wave", "packages that can be built at once"), rows=_rows(order)),
            *([_downloads(sources, sizes)] if sources else []),
        ),
        notes=tuple(notes),
        next=(f"{build_image(folder, spack=spack, repos=repos)}  # on a node of {environment.system.name}",),
    )


def _summary(order: BuildOrder, sources: Sequence[Source], sizes: Mapping[str, int | None]) -> str:
    widest = max((len(wave) for wave in order.waves), default=0)
    lines = [
        f"{order.count} packages to build; {len(order.external)} of the system; at most {widest} can be built at once",
        f"the longest chain has {len(order.chain)}: {' > '.join(map(_named, order.chain))}",
    ]
    if sources:
        known = [size for size in sizes.values() if size is not None]
        unknown = len(sources) - len(known)
        if known:
            rest = f"; no size is known of {unknown}, which neither Spack's cache nor --mirror has" if unknown else ""
            lines.append(f"{len(sources)} downloads: {sum(known) / 1e6:.1f} MB in {len(known)}{rest}")
        else:
            lines.append(
                f"{len(sources)} downloads; no size is known, since neither Spack's cache nor --mirror has one"
            )
    return "\n".join(lines)


def _rows(order: BuildOrder) -> list[tuple[str, str]]:
    return [(str(number), ", ".join(map(_named, wave))) for number, wave in enumerate(order.waves)]


def _downloads(sources: Sequence[Source], sizes: Mapping[str, int | None]) -> Table:
    def shown(size: int | None) -> str:
        return "unknown" if size is None else f"{size / 1e6:.1f} MB"

    return Table(
        headings=("download for", "size", "url"),
        rows=[(source.package, shown(sizes[source.url]), source.url) for source in sources],
    )


def _data(order: BuildOrder, sources: Sequence[Source], sizes: Mapping[str, int | None]) -> dict[str, object]:
    return {
        "packages": order.count,
        "waves": [list(map(_named, wave)) for wave in order.waves],
        "chain": list(map(_named, order.chain)),
        "external": list(map(_named, order.external)),
        "downloads": [{"package": source.package, "url": source.url, "bytes": sizes[source.url]} for source in sources],
    }


def _named(package: Package) -> str:
    return f"{package.name}@{package.version}"

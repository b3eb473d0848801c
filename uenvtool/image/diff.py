"""`uenvtool diff`: compares the packages of two recipes, environments, locks, images or published tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped
from uenvtool.env.directory import MANIFEST
from uenvtool.image import contents
from uenvtool.image.read import superblock
from uenvtool.knowledge import yamltree
from uenvtool.knowledge.checks import coupled_pins, load_recipe, version_requests
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.lock import LOCK, read_lock, require_installable
from uenvtool.knowledge.published import load_published
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.version import Version, versions

ONLY_NAMED = (
    "a recipe names only the packages that it requests, and its lock may contain others as dependencies; "
    "to compare all packages, name directories in envs/"
)
NAMED, NOT_NAMED = "newly named", "no longer named"
"""The changes of a package that one recipe does not name. The recipe's environment may contain it as a dependency."""


@dataclass(frozen=True, slots=True)
class Side:
    """The packages to compare.

    versions: the versions of each package, or () for any version. complete: whether all packages are known. A recipe
    does not name the dependencies that Spack adds.
    """

    versions: Mapping[str, Sequence[str]]
    complete: bool


def diff(before: str, after: str) -> Result:
    """Return the packages that differ, with the exit code NO if there are any.

    before, after: recipes, directories of environments, locks, images or published tables. Raises BadInput if an input
    has no packages or cannot be read, AnswerIsNo for a lock that cannot be installed, and ToolMissing for an image if
    unsquashfs is not installed.
    """
    old, new = _side(before), _side(after)
    rows, data = [], []
    for package in sorted({*old.versions, *new.versions}):
        was, now = old.versions.get(package), new.versions.get(package)
        if was is None:
            change = "added" if old.complete else NAMED
        elif now is None:
            change = "removed" if new.complete else NOT_NAMED
        elif sorted(was) != sorted(now) and not _satisfies_request(was, now, old, new):
            change = "changed"
        else:
            continue
        rows.append((change, package, _shown_versions(was), _shown_versions(now)))
        data.append({"package": package, "change": change, "before": was or (), "after": now or ()})
    if not rows:
        return Result(data=[], notes=("the same packages at the same versions",))
    return Result(
        data=data,
        tables=(Table(headings=("change", "package", before, after), rows=rows),),
        notes=() if old.complete and new.complete else (ONLY_NAMED,),
        exit_code=ExitCode.NO,
    )


def _satisfies_request(was: Sequence[str], now: Sequence[str], old: Side, new: Side) -> bool:
    if old.complete == new.complete:
        return False
    requests, resolved = (now, was) if old.complete else (was, now)
    return all(any(versions(request).contains(Version(version)) for version in resolved) for request in requests)


def _shown_versions(known: Sequence[str] | None) -> str:
    return "" if known is None else ", ".join(known) or "any"


def _side(name: str) -> Side:
    path = Path(name)
    if os.path.isfile(path) and superblock(path) is not None:
        return _of_image(path)
    if os.path.isfile(path / LOCK):
        path = path / LOCK
    elif os.path.isfile(path / MANIFEST):
        raise BadInput(f"{path} has no {LOCK}", hint="resolve it: `uenvtool build RECIPE --concretize`")
    if os.path.isfile(path) and path.suffix == ".lock":
        lock = read_lock(path, shown(path))
        require_installable(lock, shown(path))
        return Side(lock.versions(), complete=True)
    if os.path.isfile(path) and path.name != "recipe.yaml" and yamltree.read(path, shown(path)).get("source"):
        return Side(load_published(str(path)).versions_of(), complete=True)
    return Side(_of_recipe(load_recipe(name)), complete=False)


def _of_image(path: Path) -> Side:
    image = contents.read(path)
    # not the Python packages inside Spack packages, which no lock names: for example, flit-core contains tomli
    packages = {(package.name, package.version) for package in image.installs.values() or image.packages}
    if not packages:
        raise BadInput(f"{path} records no packages", hint="name an image that contains an environment")
    return Side(grouped(sorted(packages)), complete=True)


def _of_recipe(recipe: Recipe) -> dict[str, list[str]]:
    requested: dict[str, list[str]] = {root.spec.package: [] for root in recipe.roots}
    for request in version_requests(recipe):
        known = requested.setdefault(request.package, [])
        if request.hard and str(request.versions) not in known:
            known.append(str(request.versions))
    for name, (pin, _) in coupled_pins(recipe).items():
        requested[name] = [str(pin.version)]
    for name, pin in recipe.prefer.items():
        if name in requested and not requested[name] and pin.version:
            requested[name] = [str(pin.version)]
    return requested

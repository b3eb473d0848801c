"""What two recipes, environments, locks, images or published tables do not share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped
from uenvtool.env.folder import MANIFEST
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
    "a recipe names only what it asks for: a package that it does not name may still be in its lock, as a dependency; "
    "to compare all packages, name the folders in envs/"
)
NAMED, NOT_NAMED = "newly named", "no longer named"
"""What is said of a package that a recipe does not name: whether its environment has it, Spack decides."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: packages with their versions; none if the version is open.

    complete: False for a recipe, which does not name what Spack adds.
    """

    versions: Mapping[str, Sequence[str]]
    complete: bool


def diff(before: str, after: str) -> Result:
    """Return the packages that two sides do not share; the answer is no if there are any.

    A package is added, removed or changed; one that the recipe on the other side does not name is said to be so.
    Raises BadInput if a side is none of what has packages, AnswerIsNo if it is a lock that would not install,
    ToolMissing without unsquashfs for an image.
    """
    old, new = _side(before), _side(after)
    rows, data = [], []
    for package in sorted({*old.versions, *new.versions}):
        was, now = old.versions.get(package), new.versions.get(package)
        if was is None:
            change = "added" if old.complete else NAMED
        elif now is None:
            change = "removed" if new.complete else NOT_NAMED
        elif sorted(was) != sorted(now) and not _is_what_was_asked(was, now, old, new):
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


def _is_what_was_asked(was: Sequence[str], now: Sequence[str], old: Side, new: Side) -> bool:
    if old.complete == new.complete:
        return False
    requests, resolved = (now, was) if old.complete else (was, now)
    return all(any(versions(request).contains(Version(version)) for version in resolved) for request in requests)


def _shown_versions(found: Sequence[str] | None) -> str:
    """Return the versions of one side: any if it is open, none if that side lacks the package."""
    return "" if found is None else ", ".join(found) or "any"


def _side(name: str) -> Side:
    path = Path(name)
    if os.path.isfile(path) and superblock(path) is not None:
        return _of_image(path)
    if os.path.isfile(path / LOCK):
        path = path / LOCK
    elif os.path.isfile(path / MANIFEST):
        raise BadInput(f"{path} has no {LOCK} yet", hint="`uenvtool build RECIPE --concretize` makes it")
    if os.path.isfile(path) and path.suffix == ".lock":
        lock = read_lock(path, shown(path))
        require_installable(lock, shown(path))
        return Side(lock.versions(), complete=True)
    if os.path.isfile(path) and path.name != "recipe.yaml" and yamltree.read(path, shown(path)).get("source"):
        return Side(load_published(str(path)).versions_of(), complete=True)
    return Side(_of_recipe(load_recipe(name)), complete=False)


def _of_image(path: Path) -> Side:
    """Return Spack's packages, those of the system too; Python's where there are none, as in an overlay.

    What a package of Spack's brings along inside of it, as flit-core does tomli, no lock names.
    """
    image = contents.read(path)
    found = {(package.name, package.version) for package in image.installs.values() or image.packages}
    if not found:
        raise BadInput(f"{path} has no packages on record", hint="name an image with an environment in it")
    return Side(grouped(sorted(found)), complete=True)


def _of_recipe(recipe: Recipe) -> dict[str, list[str]]:
    """Return what a recipe asks for: its roots and hard pins, with the versions that it names."""
    found: dict[str, list[str]] = {root.spec.package: [] for root in recipe.roots}
    for request in version_requests(recipe):
        known = found.setdefault(request.package, [])
        if request.hard and str(request.versions) not in known:
            known.append(str(request.versions))
    for name, (pin, _) in coupled_pins(recipe).items():
        found[name] = [str(pin.version)]
    for name in [name for name, pin in recipe.prefer.items() if name in found and not found[name] and pin.version]:
        found[name] = [str(recipe.prefer[name].version)]
    return found

"""What two recipes, environments, locks, images or published tables do not share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.env.manifest import MANIFEST
from uenvtool.knowledge.checks import coupled_pins, version_requests
from uenvtool.knowledge.choice import load_recipe
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.lock import LOCK, read_lock, require_installable
from uenvtool.knowledge.published import load_published
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.version import Version, versions
from uenvtool.knowledge.yamltree import read

ONLY_NAMED = (
    "a recipe names only what it asks for: a package that it does not name may still be in its lock, as a dependency; "
    "to compare all packages, name the folders in envs/"
)
NAMED, NOT_NAMED = "newly named", "no longer named"
"""What is said of a package that a recipe does not name: whether its environment has it, Spack decides."""


Versions = Mapping[str, Sequence[str]]
"""Package to its versions; none if the version is open."""


def compared(before: str, old: Contents, after: str, new: Contents) -> Result:
    """Return the packages that two sides do not share; the answer is no if there are any. before, after: their names.

    A package is added, removed or changed; one that the recipe on the other side does not name is said to be so.
    """
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
        rows.append((change, package, _shown(was), _shown(now)))
        data.append({"package": package, "change": change, "before": was or (), "after": now or ()})
    if not rows:
        return Result(data=[], notes=("the same packages at the same versions",))
    return Result(
        data=data,
        tables=(Table(headings=("change", "package", before, after), rows=rows),),
        notes=() if old.complete and new.complete else (ONLY_NAMED,),
        exit_code=ExitCode.NO,
    )


def _is_what_was_asked(was: Sequence[str], now: Sequence[str], old: Contents, new: Contents) -> bool:
    if old.complete == new.complete:
        return False
    requests, resolved = (now, was) if old.complete else (was, now)
    return all(any(versions(request).contains(Version(version)) for version in resolved) for request in requests)


def _shown(found: Sequence[str] | None) -> str:
    """Return the versions of one side: any if it is open, none if that side lacks the package."""
    return "" if found is None else ", ".join(found) or "any"


@dataclass(frozen=True, slots=True)
class Contents:
    """Packages with their versions. complete: False for a recipe, which does not name what Spack adds."""

    versions: Versions
    complete: bool


def contents(name: str) -> Contents:
    """Return the packages of a recipe, an environment's folder, a lock or a published table.

    Raises BadInput if it has none, AnswerIsNo if it is a lock that would not install.
    """
    path = Path(name)
    if os.path.isfile(path / LOCK):
        path = path / LOCK
    elif os.path.isfile(path / MANIFEST):
        raise BadInput(f"{path} has no {LOCK} yet", hint="`uenvtool build RECIPE --concretize` makes it")
    if os.path.isfile(path) and path.suffix == ".lock":
        lock = read_lock(path, shown(path))
        require_installable(lock, shown(path))
        return Contents(lock.versions(), complete=True)
    if os.path.isfile(path) and path.name != "recipe.yaml" and read(path, shown(path)).get("source"):
        return Contents(load_published(str(path)).versions_of(), complete=True)
    return Contents(of_recipe(load_recipe(name)), complete=False)


def of_recipe(recipe: Recipe) -> Versions:
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

"""Add, remove and pin packages in a recipe of the user's; a built-in one is extended by a recipe of their own."""

from __future__ import annotations

import contextlib
import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result
from uenvtool.core.words import grouped
from uenvtool.env.edit.changes import edited, pinned
from uenvtool.env.request import EditRequest
from uenvtool.knowledge.checks import applied_couplings, load_recipe
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.joins import package_of
from uenvtool.knowledge.kinds import RECIPE
from uenvtool.knowledge.locate import Location, available, data_root, locate, shown
from uenvtool.knowledge.new import OWNED, extending
from uenvtool.knowledge.options import named_paths
from uenvtool.knowledge.recipe import Recipe, read_recipe
from uenvtool.knowledge.source import content, decoded, instead_of_file
from uenvtool.knowledge.version import Versions

OWN = "my-"
"""What stands before the name of a built-in recipe in the name of the one that extends it."""


def edit(request: EditRequest) -> Result:
    """Change a recipe's file. Raises BadInput, with the file as it was, for what `validate` would refuse."""
    dry_run, repos = request.dry_run, named_paths(request.repo)
    if not (request.add or request.remove or request.pin):
        hint = f"for example `uenvtool edit {request.recipe} --add hdf5 --reason 'our files'`"
        raise BadInput("nothing to change", hint=hint)
    location = locate(RECIPE, request.recipe)
    notes: tuple[str, ...] = ()
    if is_built_in(location):
        own = Path(RECIPE.file(OWN + location.name))
        notes = (f"{location.name} is built in and stays as it is; {own} extends it",)
        path, start = own, "\n".join([OWNED, *extending(RECIPE, location.name)]) + "\n"
    else:
        path, start = location.path.resolve(), ""
    with contextlib.nullcontext() if dry_run else files.locked(path.parent, wait=True, below=False):
        was = _text(path) if path.is_file() else ""
        before = was or start
        after = edited(before, request, _inherited(path, before), _places(path, before, request.pin))
        with instead_of_file(path, after.encode()):
            changed = load_recipe(str(path.absolute()))
        if not dry_run:
            files.write(path, after, keep_mode=True)
    return Result(
        data={"file": str(path), "written": not dry_run, "text": after},
        file=_diff(was, after, path),
        notes=(*notes, *_coupled(changed, request.pin), f"{'would change' if dry_run else 'wrote'} {shown(path)}"),
        next=() if dry_run else (_build(path, request.spack, repos),),
    )


def is_built_in(location: Location) -> bool:
    """Tell if a recipe came with the tool: it is not to be changed, since an update would replace it."""
    path = location.path.resolve()
    return path.is_relative_to(data_root()) and OWNED not in _text(path)[:1000]


def _inherited(path: Path, text: str) -> dict[str, str]:
    """Return the packages that a recipe has from what it extends, each with its group; an empty one for a pin."""
    with instead_of_file(path, text.encode()):
        tree = load_extended(Location(RECIPE.name_of(path), path, ""), RECIPE).tree
    own = shown(path)
    found: dict[str, str] = {}
    for pins in filter(None, (tree.get("require"), tree.get("prefer"))):
        found |= {name: "" for name, node in pins.value.items() if node.position.file != own}
    groups = tree.get("groups")
    for name, group in groups.value.items() if groups else ():
        specs = group.get("specs")
        found |= {package_of(entry): name for entry in (specs.value if specs else ()) if entry.position.file != own}
    return found


def _places(path: Path, text: str, pins: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
    if not pins:
        return {}
    with instead_of_file(path, text.encode()):
        recipe = read_recipe(str(path.absolute()))
    held: list[tuple[str, tuple[str, ...], Versions | None]] = [
        *((root.spec.package, ("groups",), root.spec.versions) for root in recipe.roots),
        *((name, ("require", name), pin.version) for name, pin in recipe.require.items()),
        *((name, ("compilers", name), pin.version) for name, pin in recipe.compilers.items()),
    ]
    if recipe.python:
        held.append(("python", ("python",), recipe.python.version))
    if recipe.compiler:
        held.append((recipe.compiler.spec.package, ("compiler",), recipe.compiler.spec.versions))
    wanted = dict(map(pinned, pins))
    apart = [
        (name, place)
        for name, place, versions in held
        if name in wanted and versions and not versions.intersects(wanted[name])
    ]
    return grouped(dict.fromkeys(apart))


def _coupled(recipe: Recipe, pins: Sequence[str]) -> Iterator[str]:
    for package, _ in map(pinned, pins):
        reasons = [
            f"coupled to {package}: {rule.reason} ({rule.position})"
            for rule in applied_couplings(recipe)
            if rule.when.package == package
        ]
        yield from reasons or [f"no coupling is known for {package}"]


def _build(path: Path, spack: Path | None, repos: Mapping[str, Path]) -> str:
    """Return the command that builds a recipe; it has its name if that finds it, else its path."""
    found = available(RECIPE).get(RECIPE.name_of(path))
    words = ["uenvtool", "build", found.name if found and found.path.resolve() == path.resolve() else shown(path)]
    words += ["--spack", str(spack)] if spack else []
    words += [word for name, folder in repos.items() for word in ("--repo", f"{name}={folder}")]
    return shlex.join(words)


def _text(path: Path) -> str:
    return decoded(content(path, shown(path)), shown(path))


def _diff(before: str, after: str, path: Path) -> str:
    name = shown(path)
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, name if before else "/dev/null", name))

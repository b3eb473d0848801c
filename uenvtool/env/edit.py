"""`uenvtool edit`: adds, removes and pins packages in a recipe file.

For a built-in recipe, the command writes a new recipe that extends the built-in one.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result
from uenvtool.core.words import grouped
from uenvtool.core.yamltext import scalar
from uenvtool.env.document import Document, Names, pairs
from uenvtool.env.known_versions import unknown_versions
from uenvtool.env.request import Changes, EditRequest
from uenvtool.knowledge.checks import applied_couplings, broken_couplings, load_recipe
from uenvtool.knowledge.kinds import RECIPE
from uenvtool.knowledge.load import load_extended, package_of
from uenvtool.knowledge.locate import Location, available, data_root, locate, shown
from uenvtool.knowledge.new import OWNED, extending
from uenvtool.knowledge.options import named_paths
from uenvtool.knowledge.packages import package_facts
from uenvtool.knowledge.recipe import Recipe, read_recipe
from uenvtool.knowledge.spec import Spec, SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Versions
from uenvtool.knowledge.yamltree import content, decoded

PREFIX = "my-"
"""The prefix in the name of a recipe that extends a built-in recipe: `my-NAME`."""
ADDED = "added"
"""The name of the group for new specs if the recipe has several groups."""


def edit(request: EditRequest) -> Result:
    """Change a recipe file. Raises BadInput and leaves the file unchanged if `validate` would reject the result."""
    dry_run, repos = request.dry_run, named_paths(request.repo)
    if not (request.add or request.remove or request.pin):
        hint = f"for example `uenvtool edit {request.recipe} --add hdf5 --reason 'our files'`"
        raise BadInput("no change is requested: --add, --remove and --pin are missing", hint=hint)
    for package, pins in grouped((pinned(pin)[0], f"--pin {pin}") for pin in request.pin).items():
        if len(pins) > 1:
            raise BadInput(f"{' and '.join(pins)} pin the same package", hint=f"give one --pin for {package}")
    location = locate(RECIPE, request.recipe)
    notes: tuple[str, ...] = ()
    if _is_built_in(location):
        path = Path(RECIPE.file(PREFIX + location.name))
        notes = (f"{location.name} is built in and is not changed; {path} extends it",)
        start = "\n".join([OWNED, *extending(RECIPE, location.name)]) + "\n"
    else:
        path, start = location.path.resolve(), ""
    name = shown(path)
    with contextlib.nullcontext() if dry_run else files.locked(path.parent, wait=True, below=False):
        before = _text(path) if path.is_file() else ""
        base = before or start
        after = edited(base, request, _inherited(path, base), _keys_of_pins(path, base, request.pin))
        after, moved = _with_coupled(path, after, request)
        changed = load_recipe(str(path.absolute()), after.encode())
        if repos:
            names = {_package(spec) for spec in (*request.add, *request.pin, *moved)}
            BadInput.raise_any(unknown_versions(changed, repos, names))
        if not dry_run:
            files.write(path, after)
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return Result(
        data={"file": str(path), "written": not dry_run, "text": after},
        file="".join(difflib.unified_diff(old, new, name if before else "/dev/null", name)),
        notes=(
            *notes,
            *_coupled(changed, request.pin),
            *([f"also changed, because it is coupled: {', '.join(moved)}"] if moved else []),
            f"{'would change' if dry_run else 'wrote'} {name}",
        ),
        next=() if dry_run else (_build_command(path, request.spack, repos),),
    )


def _is_built_in(location: Location) -> bool:
    path = location.path.resolve()
    # An update of uenvtool would overwrite changes to a built-in recipe.
    return path.is_relative_to(data_root()) and OWNED not in _text(path)[:1000]


def _inherited(path: Path, text: str) -> dict[str, str]:
    """Return the group of each package that a recipe inherits. The group is "" for a package that is only pinned."""
    tree = load_extended(Location(RECIPE.name_of(path), path, "", text.encode()), RECIPE).tree
    this_file = shown(path)
    groups_by_package: dict[str, str] = {}
    for pins in filter(None, (tree.get("require"), tree.get("prefer"))):
        groups_by_package |= {name: "" for name, node in pins.value.items() if node.position.file != this_file}
    groups = tree.get("groups")
    for name, group in groups.value.items() if groups else ():
        specs = group.get("specs")
        inherited = [spec for spec in (specs.value if specs else ()) if spec.position.file != this_file]
        groups_by_package |= {package_of(spec): name for spec in inherited}
    return groups_by_package


def _with_coupled(path: Path, text: str, request: EditRequest) -> tuple[str, list[str]]:
    """Return the text with the versions of the packages that are coupled to the pinned packages, and these pins.

    A package that the request pins keeps the requested version. If it violates a coupling, `validate` reports that.
    """
    requested, moved = set(dict(map(pinned, request.pin))), dict[str, str]()
    while True:
        recipe = read_recipe(str(path.absolute()), text.encode())
        found = {
            pin.package: f"{pin.package}@{pin.version}"
            for rule, pin, _ in broken_couplings(recipe)
            if rule.when.package in {*requested, *moved} and pin.package not in {*requested, *moved}
        }
        if not found:
            return text, list(moved.values())
        moved |= found
        pins = tuple(found.values())
        keys = _keys_of_pins(path, text, pins, is_coupled=True)
        text = edited(text, Changes(pin=pins, reason=request.reason), _inherited(path, text), keys)


def _keys_of_pins(path: Path, text: str, pins: Sequence[str], *, is_coupled: bool = False) -> dict[str, list[Names]]:
    """Return, for each pinned package, the keys that already set another version of it.

    is_coupled: Whether preferred versions also change. Otherwise, `--pin` adds a required version.
    """
    if not pins:
        return {}
    recipe = read_recipe(str(path.absolute()), text.encode())
    known: list[tuple[str, Names, Versions | None]] = [
        *((root.spec.package, ("groups",), root.spec.versions) for root in recipe.roots),
        *((name, ("require", name), pin.version) for name, pin in recipe.require.items()),
        *((name, ("compilers", name), pin.version) for name, pin in recipe.compilers.items()),
        *((name, ("prefer", name), pin.version) for name, pin in recipe.prefer.items() if is_coupled),
    ]
    if recipe.python:
        known.append(("python", ("python",), recipe.python.version))
    if recipe.compiler:
        known.append((recipe.compiler.spec.package, ("compiler",), recipe.compiler.spec.versions))
    requested = dict(map(pinned, pins))
    conflicting = [
        (name, keys)
        for name, keys, versions in known
        if name in requested and versions and not versions.intersects(requested[name])
    ]
    return grouped(dict.fromkeys(conflicting))


def _coupled(recipe: Recipe, pins: Sequence[str]) -> Iterator[str]:
    for package, version in map(pinned, pins):
        reasons = [
            f"the version of another package depends on {package}: {rule.reason} ({rule.position})"
            for rule in applied_couplings(recipe)
            if rule.when.package == package
        ]
        rules = [rule for rule in (*package_facts().couplings, *recipe.couplings) if rule.when.package == package]
        coupled = sorted({pin.package for rule in rules for pin in rule.then})
        unknown = f"check the versions of {', '.join(coupled)}: those that match {package}@{version} are not known"
        none = f"no other package is known to depend on the version of {package}"
        yield from reasons or [unknown if coupled else none]


def _build_command(path: Path, spack: Path | None, repos: Mapping[str, Path]) -> str:
    known = available(RECIPE).get(RECIPE.name_of(path))
    is_known = known is not None and known.path.resolve() == path.resolve()
    arguments = ["uenvtool", "build", known.name if known and is_known else shown(path)]
    arguments += ["--spack", str(spack)] if spack else []
    arguments += [argument for name, directory in repos.items() for argument in ("--repo", f"{name}={directory}")]
    return shlex.join(arguments)


def _text(path: Path) -> str:
    return decoded(content(path, shown(path)), shown(path))


def edited(
    text: str,
    changes: Changes,
    inherited: Mapping[str, str] = MappingProxyType({}),
    keys_of_pins: Mapping[str, Sequence[Names]] = MappingProxyType({}),
) -> str:
    """Return the text of a recipe with the changes applied.

    inherited: the group of each inherited package, or "" for a package that is only pinned. keys_of_pins: the keys that
    receive a package's pin, if the pin does not belong under `require`. Raises BadInput if a spec is invalid, if a
    package to remove is not in the recipe, or if --reason is given but the change leaves no line for a comment.
    """
    document = Document(text)
    if changes.reason and not (changes.add or changes.pin or set(changes.remove) & set(inherited)):
        raise BadInput(
            f"--reason: the line of {', '.join(changes.remove)} is removed, so no line is left for a comment",
            hint="omit --reason, or give the reason in the commit message",
        )
    for spec in changes.add:
        document = _added(document, spec, changes.reason, inherited)
    for package in changes.remove:
        document = _removed(document, package, changes.reason, inherited)
    for pin in changes.pin:
        package, _ = pinned(pin)
        for names in keys_of_pins.get(package) or [("require", package)]:
            document = _pinned(document, pin, names, changes.reason, inherited)
    return document.text


def pinned(pin: str) -> tuple[str, Versions]:
    """Return the package and the versions of a pin. Raises BadInput if the pin is not PKG@VERSION."""
    spec = _parsed(pin) if re.fullmatch(r"[^@\s+~%^]+@[^@\s+~%^]+", pin) else None
    if spec is None or spec.versions is None:
        raise BadInput(f"--pin '{pin}': expected PKG@VERSION", hint="for example --pin py-torch@2.7.1")
    return spec.package, spec.versions


def _added(document: Document, spec: str, reason: str, inherited: Mapping[str, str]) -> Document:
    package = _package(spec)
    item = _with_reason("spec", spec, reason)
    if root := _roots(document).get(package):
        group, index, known = root
        if not pairs(known):
            return document.replaced(known, item)
        document = document.replaced(_spec_of(known), scalar(spec))
        return _reasoned(document, document.at("groups", group, "specs").value[index], reason)
    groups = [key.value for key, _ in pairs(document.at("groups"))]
    names = ("groups", inherited.get(package) or (groups[0] if len(groups) == 1 else ADDED), "specs")
    specs = document.at(*names)
    if specs is not None and isinstance(specs.value, list):
        return document.with_item(specs, item)
    return document.with_path(names, [item])


def _removed(document: Document, package: str, reason: str, inherited: Mapping[str, str]) -> Document:
    root = _roots(document).get(package)
    if root is None and package not in inherited:
        raise BadInput([unknown("package to remove", package, {*inherited, *_roots(document)})])
    if root is not None:
        document = document.without_item(("groups", root[0], "specs"), root[1])
    if package not in inherited:
        return document
    remove = document.at("remove")
    if remove is None:
        document = document.with_key(document.top, "remove", f"[{scalar(package)}]")
    else:
        document = document.with_item(remove, scalar(package))
    return document.with_comment(document.at("remove"), f"{package}: {reason}") if reason else document


def _pinned(document: Document, pin: str, names: Names, reason: str, inherited: Mapping[str, str]) -> Document:
    package, _, version = pin.partition("@")
    if names[0] == "groups":
        root = _roots(document).get(package)
        spec = _spec_of(root[2]).value if root else package
        spec = re.sub(rf"^{re.escape(package)}(@[^\s+~%^]+)?", lambda _: f"{package}@{version}", spec)
        return _added(document, spec, reason, inherited)
    key, shown_version = ("spec", pin) if names[0] == "compiler" else ("version", version)
    value = _with_reason(key, shown_version, reason)
    known = document.at(*names)
    if known is None:
        return document.with_path(names, value)
    if not pairs(known):
        return document.with_value(names, value)
    has_key = document.at(*names, key) is not None
    text = scalar(shown_version)
    document = document.with_value((*names, key), text) if has_key else document.with_key(known, key, text)
    return _reasoned(document, document.at(*names), reason)


def _with_reason(key: str, value: str, reason: str) -> str:
    return f"{{{key}: {scalar(value)}, reason: {scalar(reason)}}}" if reason else scalar(value)


def _reasoned(document: Document, item: Any, reason: str) -> Document:
    if not reason:
        return document
    known = next((value for key, value in item.value if key.value == "reason"), None)
    if known is not None:
        return document.replaced(known, scalar(reason))
    return document.with_key(item, "reason", scalar(reason))


def _roots(document: Document) -> dict[str, tuple[str, int, Any]]:
    """Return, for each package, the group, index and YAML node of its root specs."""
    roots: dict[str, tuple[str, int, Any]] = {}
    for key, _ in pairs(document.at("groups")):
        specs = document.at("groups", key.value, "specs")
        for index, item in enumerate(specs.value if specs is not None and isinstance(specs.value, list) else ()):
            node = _spec_of(item)
            if node is not None:
                with contextlib.suppress(BadInput):  # a spec without a package name
                    roots.setdefault(_package(node.value), (key.value, index, item))
    return roots


def _spec_of(item: Any) -> Any:
    return next((value for key, value in pairs(item) if key.value == "spec"), None) if pairs(item) else item


def _package(spec: str) -> str:
    package = _parsed(spec).package
    if not package:
        raise BadInput(f"{spec!r} does not name a package", hint="for example 'hdf5@1.14 +mpi'")
    return package


def _parsed(spec: str) -> Spec:
    try:
        return parse_spec(spec)
    except SpecSyntaxError as error:
        raise BadInput(f"{spec!r} is not a valid spec: {error}", hint="for example 'hdf5@1.14 +mpi'") from error

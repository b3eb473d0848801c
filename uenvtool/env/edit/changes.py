"""A recipe's text with packages added, removed and pinned. Pure: text in, text out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.yamltext import scalar
from uenvtool.env.edit.document import Document
from uenvtool.env.request import Changes
from uenvtool.knowledge.spec import Spec, SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Versions

ADDED = "added"
"""The group that new specs go into if the recipe has several."""


def edited(
    text: str,
    changes: Changes,
    inherited: Mapping[str, str] | None = None,
    places: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> str:
    """Return the text of a recipe with changes. inherited: the packages of what it extends, each with its group;
    an empty one for a pin. places: where pins of packages go, by the names that lead there, if not into `require`.

    Raises BadInput for a spec that is none, for a package to remove that is not in the recipe, and for a
    reason that nothing is left to stand beside.
    """
    inherited = inherited or {}
    document = Document(text)
    if changes.reason and not (changes.add or changes.pin or set(changes.remove) & set(inherited)):
        raise BadInput(
            f"--reason has nothing to stand beside: the line of {', '.join(changes.remove)} goes",
            hint="leave it out, or say why in the message of the commit",
        )
    for spec in changes.add:
        document = _added(document, spec, changes.reason, inherited)
    for package in changes.remove:
        document = _removed(document, package, changes.reason, inherited)
    for pin in changes.pin:
        package, _ = pinned(pin)
        for names in (places or {}).get(package) or [("require", package)]:
            document = _pinned(document, pin, names, changes.reason, inherited)
    return document.text


def pinned(pin: str) -> tuple[str, Versions]:
    """Return the package and the versions of a pin. Raises BadInput if it is not PKG@VERSION."""
    spec = _parsed(pin) if re.fullmatch(r"[^@\s+~%^]+@[^@\s+~%^]+", pin) else None
    if spec is None or spec.versions is None:
        raise BadInput(f"--pin {pin}: not PKG@VERSION", hint="for example --pin py-torch@2.7.1")
    return spec.package, spec.versions


def _added(document: Document, spec: str, reason: str, inherited: Mapping[str, str]) -> Document:
    package = _package(spec)
    entry = f"{{spec: {scalar(spec)}, reason: {scalar(reason)}}}" if reason else scalar(spec)
    found = _roots(document).get(package)
    if found is not None:
        group, index = found
        item = document.at("groups", group, "specs").value[index]
        if not _is_mapping(item):
            return document.replaced(item, entry)
        document = document.replaced(_spec_of(item), scalar(spec))
        return _with_reason(document, document.at("groups", group, "specs").value[index], reason)
    groups = document.at("groups")
    if groups is None:
        name = inherited.get(package) or ADDED
        lines = ["", f"  {scalar(name)}:", "    specs:", f"    - {entry}"]
        return document.with_entry(document.top, "groups", lines, f"{{{scalar(name)}: {{specs: [{entry}]}}}}")
    names = [key.value for key, _ in groups.value]
    name = inherited.get(package) or (names[0] if len(names) == 1 else ADDED)
    specs = document.at("groups", name, "specs")
    if specs is not None and isinstance(specs.value, list):
        return document.with_item(specs, entry)
    if name in names:
        return document.with_entry(document.at("groups", name), "specs", ["", f"- {entry}"], f"[{entry}]")
    return document.with_entry(groups, name, ["", "  specs:", f"  - {entry}"], f"{{specs: [{entry}]}}")


def _removed(document: Document, package: str, reason: str, inherited: Mapping[str, str]) -> Document:
    found = _roots(document).get(package)
    if found is None and package not in inherited:
        known = {*inherited, *_roots(document)}
        raise BadInput([unknown("package to remove", package, known)])
    if found is not None:
        group, index = found
        document = document.without_item(("groups", group, "specs"), index)
    if package not in inherited:
        return document
    remove = document.at("remove")
    if remove is None:
        document = document.with_entry(document.top, "remove", [f"[{scalar(package)}]"], f"[{scalar(package)}]")
    else:
        document = document.with_item(remove, scalar(package))
    return document.with_remark(document.at("remove"), f"{package}: {reason}") if reason else document


def _pinned(document: Document, pin: str, names: Sequence[str], reason: str, inherited: Mapping[str, str]) -> Document:
    """Return with a version at the place that names lead to; `groups`: in the root spec of its package."""
    package, _, version = pin.partition("@")
    if names[0] == "groups":
        return _moved(document, package, version, reason, inherited)
    key, shown = ("spec", pin) if names[0] == "compiler" else ("version", version)
    value = f"{{{key}: {scalar(shown)}, reason: {scalar(reason)}}}" if reason else scalar(shown)
    known = document.at(*names)
    if known is None:
        *above, name = names
        mapping = document.at(*above)
        if mapping is None:
            lines = ["", f"  {scalar(name)}: {value}"]
            return document.with_entry(document.top, above[0], lines, f"{{{scalar(name)}: {value}}}")
        return document.with_entry(mapping, name, [value], value)
    if not _is_mapping(known):
        return document.with_value(tuple(names), value)
    if document.at(*names, key) is None:
        document = document.with_entry(known, key, [scalar(shown)], scalar(shown))
    else:
        document = document.with_value((*names, key), scalar(shown))
    return _with_reason(document, document.at(*names), reason)


def _moved(document: Document, package: str, version: str, reason: str, inherited: Mapping[str, str]) -> Document:
    """Return with another version in the root spec of a package; what it inherits is laid under it."""
    spec = package
    if found := _roots(document).get(package):
        group, index = found
        spec = _spec_of(document.at("groups", group, "specs").value[index]).value
    moved = re.sub(rf"^{re.escape(package)}(@[^\s+~%^]+)?", lambda _: f"{package}@{version}", spec)
    return _added(document, moved, reason, inherited)


def _roots(document: Document) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    groups = document.at("groups")
    for key, _ in groups.value if groups is not None else ():
        specs = document.at("groups", key.value, "specs")
        for index, item in enumerate(specs.value if specs is not None and isinstance(specs.value, list) else ()):
            node = _spec_of(item)
            if node is not None:
                with contextlib.suppress(BadInput):  # what names no package is none of the file's packages
                    found.setdefault(_package(node.value), (key.value, index))
    return found


def _with_reason(document: Document, item: Any, reason: str) -> Document:
    if not reason:
        return document
    known = next((value for key, value in item.value if key.value == "reason"), None)
    if known is not None:
        return document.replaced(known, scalar(reason))
    return document.with_entry(item, "reason", [scalar(reason)], scalar(reason))


def _spec_of(item: Any) -> Any:
    """Return the scalar with the spec of an entry, which is it or has it."""
    return next((value for key, value in item.value if key.value == "spec"), None) if _is_mapping(item) else item


def _is_mapping(node: object) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple)


def _package(spec: str) -> str:
    package = _parsed(spec).package
    if not package:
        raise BadInput(f"{spec!r} names no package", hint="for example hdf5@1.14 +mpi")
    return package


def _parsed(spec: str) -> Spec:
    try:
        return parse_spec(spec)
    except SpecSyntaxError as error:
        raise BadInput(f"{spec!r} is not a spec: {error}", hint="for example hdf5@1.14 +mpi") from error

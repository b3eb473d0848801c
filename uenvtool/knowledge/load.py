"""Loads a knowledge file with everything that it extends, as one tree, and finds the usable files of a kind.

`extends` merges mappings key by key. A list that its kind joins, such as the specs of a group, is joined with the
inherited list. Any other value replaces the inherited one. In a mapping of pins, `null` removes an inherited entry.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.kinds import Kind
from uenvtool.knowledge.locate import Location, available, locate, locate_next
from uenvtool.knowledge.schema import check_schema
from uenvtool.knowledge.spec import SpecSyntaxError, parse_spec
from uenvtool.knowledge.yamltree import Node, content, is_abstract, parse, read

T = TypeVar("T")

MAX_CHAIN = 16
"""The maximum number of files in a chain of `extends`. Readers cannot follow more, and every command reads each one."""
NOT_INHERITED = ("extends", "abstract", "remove")


@dataclass(frozen=True, slots=True)
class ExtendedTree:
    """A tree with everything that it inherits.

    chain: The files that were merged into the tree, starting with the extending file.
    removed: The inherited packages that a file in the chain removes.
    """

    tree: Node
    chain: tuple[Location, ...]
    removed: frozenset[str] = frozenset()


def load_extended(location: Location, kind: Kind) -> ExtendedTree:
    """Return a file and everything that it extends as one tree. Files of the user are checked against their schema.

    Raises BadInput if any of the files has an error or if `extends` has a cycle.
    """
    return _load(location, kind, {os.path.realpath(location.path): location}, {})


def _load(location: Location, kind: Kind, chain: dict[str, Location], loaded: dict[str, ExtendedTree]) -> ExtendedTree:
    key = next(reversed(chain))
    if key in loaded:  # several files can extend the same file
        return loaded[key]
    tree = _tree(location, kind)
    ancestors: list[Location] = []
    merged: Node | None = None
    removed = {str(node.value) for node in _list(tree.get("remove"))}
    for real, parent in _parents(tree, location, kind, chain):
        extended = _load(parent, kind, {**chain, real: parent}, loaded)
        merged = extended.tree if merged is None else _laid_over(extended.tree, merged, kind)
        ancestors = [*extended.chain, *(other for other in ancestors if other not in extended.chain)]
        removed |= extended.removed
    if merged is not None:
        tree = _laid_over(tree, _without_removed(merged, tree), kind)
    elif tree.get("remove") is not None:
        place = tree.value["remove"].key
        raise BadInput("`remove` requires `extends`", place, "delete `remove`, or add `extends`")
    loaded[key] = ExtendedTree(tree, (location, *ancestors), frozenset(removed))
    return loaded[key]


def once_if_shipped(load: Callable[[Location], T]) -> Callable[[Location], T]:
    """Return `load` with a cache for built-in files that extend no other file."""

    @functools.lru_cache(maxsize=256)
    def kept(location: Location, shown: str, data: bytes) -> T:
        return load(location)

    @functools.wraps(load)
    def loaded(location: Location) -> T:
        if location.is_built_in:
            data = content(location.path, location.shown)
            if parse(data, location.shown).get("extends") is None:
                return kept(location, location.shown, data)
        return load(location)

    return loaded


def _tree(location: Location, kind: Kind) -> Node:
    data = content(location.path, location.shown) if location.unwritten is None else location.unwritten
    return parse(data, location.shown) if location.is_built_in else _checked_tree(data, location.shown, kind.name)


@functools.lru_cache(maxsize=1024)  # `list` reads all files, and many of them extend the same ones
def _checked_tree(data: bytes, shown: str, schema: str) -> Node:
    tree = parse(data, shown)
    check_schema(tree, schema)
    return tree


def _parents(
    tree: Node, location: Location, kind: Kind, chain: Mapping[str, Location]
) -> Iterator[tuple[str, Location]]:
    for node in _list(tree.get("extends")):
        name = node.value
        if "/" in name and not name.startswith("/"):
            name = str(location.path.parent / name)
        if len(chain) > MAX_CHAIN:
            hint = "extend one of the later files directly"
            raise BadInput(f"the chain of `extends` is longer than {MAX_CHAIN} files", node.position, hint)
        if name == location.name:
            parent = locate_next(kind, location, node.position)
        else:
            parent = locate(kind, name, node.position)
        real = os.path.realpath(parent.path)
        if real in chain:
            names = " -> ".join([*(seen.name for seen in chain.values()), parent.name])
            raise BadInput(f"`extends` has a cycle: {names}", node.position, "remove one of these `extends`")
        yield real, parent


def _laid_over(upper: Node, lower: Node, kind: Kind, name: str = "") -> Node:
    if isinstance(upper.value, dict) and "url" in upper.value:
        return upper  # a pinned git repository; a mix of two pins would name neither repository
    if isinstance(upper.value, dict) and isinstance(lower.value, dict):
        merged = {key: child for key, child in lower.value.items() if name or key not in NOT_INHERITED}
        for key, child in upper.value.items():
            below = merged.get(key)
            if name in kind.pins and child.value is None:
                if below is None:
                    raise BadInput([unknown("pin to drop", key, merged, child.key)])
                del merged[key]
            else:
                merged[key] = child if below is None else _laid_over(child, below, kind, key)
        return Node(merged, upper.position, upper.key)
    if name in kind.joined and isinstance(upper.value, list) and isinstance(lower.value, list):
        fields = kind.joined[name]
        joined = _joined_by(fields, upper.value, lower.value) if fields else _joined_specs(upper.value, lower.value)
        return Node(joined, upper.position, upper.key)
    return upper


def _joined_by(fields: tuple[str, ...], above: list[Node], below: list[Node]) -> list[Node]:
    # an entry replaces the inherited entry with the same fields
    entries = {tuple(str(entry.value[name].value) for name in fields): entry for entry in (*below, *above)}
    return list(entries.values())


def _joined_specs(above: list[Node], below: list[Node]) -> list[Node]:
    """Merge each spec with the inherited specs of the same package, variant by variant.

    `replace: true` replaces them instead. An entry with a condition is only merged with a spec under this condition.
    """
    joined = [(package_of(entry), entry) for entry in below]
    for entry in above:
        package = package_of(entry)
        same = [index for index, (other, _) in enumerate(joined) if other == package]
        if _field(entry, "replace"):
            joined = [pair for pair in joined if pair[0] != package]
            joined.insert(same[0] if same else len(joined), (package, entry))
            continue
        when = _field(entry, "when")
        fitting = [index for index in same if when is None or _field(joined[index][1], "when") == when]
        for index in fitting:
            joined[index] = (package, _spec_over(entry, joined[index][1]))
        if not fitting:
            joined.append((package, entry))
    return [entry for _, entry in joined]


def _spec_over(entry: Node, below: Node) -> Node:
    upper, lower = _fields(entry), _fields(below)
    try:
        spec = parse_spec(upper["spec"].value).over(parse_spec(lower["spec"].value))
    except SpecSyntaxError:
        return entry  # reported with its column when the recipe is read
    fields = {**lower, **upper, "spec": replace(upper["spec"], value=spec.text)}
    return Node(fields, entry.position, entry.key)


def package_of(entry: Node) -> str:
    """Return the package of an entry in a list of specs."""
    spec = _fields(entry)["spec"].value
    try:
        return parse_spec(spec).package or spec
    except SpecSyntaxError:
        return str(spec)  # reported with its column when the recipe is read


def _fields(entry: Node) -> dict[str, Node]:
    return entry.value if isinstance(entry.value, dict) else {"spec": entry}


def _field(entry: Node, name: str) -> object:
    node = _fields(entry).get(name)
    return node.value if node else None


def _without_removed(lower: Node, upper: Node) -> Node:
    names = {str(node.value): node for node in _list(upper.get("remove"))}
    if not names:
        return lower
    known = set(_packages(lower))
    BadInput.raise_any(
        unknown("package to remove", name, known, node.position, listed_by="uenvtool show RECIPE")
        for name, node in names.items()
        if name not in known
    )
    tree = dict(lower.value)
    for pins in ("require", "prefer"):
        if pins in tree:
            entries = {name: node for name, node in tree[pins].value.items() if name not in names}
            tree[pins] = replace(tree[pins], value=entries)
    if "groups" in tree:
        groups = dict(tree["groups"].value)
        for name, group in groups.items():
            if (specs := group.get("specs")) is not None:
                remaining = [entry for entry in specs.value if package_of(entry) not in names]
                groups[name] = replace(group, value={**group.value, "specs": replace(specs, value=remaining)})
        tree["groups"] = replace(tree["groups"], value=groups)
    return replace(lower, value=tree)


def _packages(tree: Node) -> Iterator[str]:
    for pins in ("require", "prefer"):
        yield from tree.value[pins].value if pins in tree.value else ()
    for group in tree.value["groups"].value.values() if "groups" in tree.value else ():
        yield from map(package_of, _list(group.get("specs")))


def _list(node: Node | None) -> list[Node]:
    return [] if node is None or node.value is None else node.each()


def check_file(kind: Kind, location: Location) -> None:
    """Check a file with the reader of its kind. Raises BadInput with all problems in the file.

    An abstract file, which may lack fields, is only checked against its schema.
    """
    tree = read(location.path, location.shown)
    check_schema(tree, kind.name)
    if is_abstract(tree):
        load_extended(location, kind)
    else:
        kind.load(str(location.path))


def usable_files(kind: Kind) -> dict[str, Location]:
    """Return the files of a kind by name, without the user's broken files, which must not affect other commands."""
    return usable_and_skipped(kind)[0]


def skipped_file_notes(*kinds: Kind) -> tuple[str, ...]:
    """Return a note for each broken user's file of these kinds, which `usable_files` omits."""
    return tuple(note for kind in kinds for note in usable_and_skipped(kind)[1])


def usable_and_skipped(kind: Kind) -> tuple[dict[str, Location], tuple[str, ...]]:
    """Return the usable files of a kind and a note for each broken user's file, from the same reading of the files.

    If a broken file hides a built-in file, the built-in file is used.
    """
    files = available(kind)
    broken: dict[str, Problem] = {}
    for name, location in files.items():
        if not location.is_built_in:
            try:
                check_file(kind, location)
            except BadInput as error:
                broken[name] = error.problems[0]
    notes = (
        f"ignored: {problem.position or files[name].shown}: {problem.message}; "
        f"run `uenvtool validate {files[name].shown}` for all problems"
        for name, problem in broken.items()
    )
    built_in = available(kind, user_files=False) if broken else {}
    usable = {name: location for name, location in files.items() if name not in broken}
    return dict(sorted({**built_in, **usable}.items())), tuple(notes)


def entries_of_other_files(kind: Kind, name: str, entries: Callable[[Location], Mapping[str, T]]) -> dict[str, T]:
    """Return the entries of all other files of this kind, by id. Skips broken files."""
    other_entries: dict[str, T] = {}
    for other, location in available(kind).items():
        if other != name:
            with contextlib.suppress(BadInput):
                other_entries.update(entries(location))
    return other_entries


def duplicate_id_problems(entries: Mapping[str, Any], others: Mapping[str, Any], what: str = "") -> Iterator[Problem]:
    """Yield a problem for each id that another file also defines. what: The type of the ids, for the message."""
    for name, entry in entries.items():
        if name in others:
            message = f"{what}{name!r} is already defined at {others[name].position}"
            yield Problem(message, entry.position, "choose another name for this entry")

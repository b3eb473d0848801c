"""`extends`: a file's tree laid over the trees of the files that it extends.

Names are laid over names. A list that its kind joins (such as the specs of a group) is joined with the
one below. Any other value replaces the one below; in a mapping of pins `null` drops what is inherited.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass

from uenvtool.core.errors import BadInput, unknown
from uenvtool.knowledge.joins import package_of
from uenvtool.knowledge.kinds import Kind
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.schema import check
from uenvtool.knowledge.source import Node, content, parse

MAX_CHAIN = 16
"""Files that extend one another. Nobody can follow more, and each one is read for every command."""
Chain = dict[str, Location]
"""Files that extend one another, by their real paths: each one extends the next."""
NOT_INHERITED = ("extends", "abstract", "remove")


def is_abstract(tree: Node) -> bool:
    """Tell if a file exists to be extended only."""
    abstract = tree.get("abstract")
    return abstract is not None and abstract.value is True


@dataclass(frozen=True, slots=True)
class Extended:
    """A tree with everything that it inherits.

    chain: the files that it came from, nearest first. removed: the packages that a file of the chain leaves out of what
    it extends.
    """

    tree: Node
    chain: tuple[Location, ...]
    removed: frozenset[str] = frozenset()


def load_extended(location: Location, kind: Kind) -> Extended:
    """Read a file and all that it extends as one tree; what does not ship is checked against its schema.

    Raises BadInput for what is wrong in any of the files, and for a circle.
    """
    return _load(location, kind, {os.path.realpath(location.path): location}, {})


def _load(location: Location, kind: Kind, chain: Chain, loaded: dict[str, Extended]) -> Extended:
    """Return a file with what it extends; `chain` ends with it. Each file is read once: see `loaded`."""
    key = next(reversed(chain))
    if key not in loaded:
        loaded[key] = _read_extended(location, kind, chain, loaded)
    return loaded[key]


def _read_extended(location: Location, kind: Kind, below: Chain, loaded: dict[str, Extended]) -> Extended:
    data = content(location.path, location.shown)
    tree = parse(data, location.shown) if location.is_built_in else _checked(data, location.shown, kind.name)
    chain: list[Location] = []
    merged: Node | None = None
    removed = {str(node.value) for node in _list(tree.get("remove"))}
    for real, parent in _parents(tree, location, kind, below):
        extended = _load(parent, kind, {**below, real: parent}, loaded)
        merged = extended.tree if merged is None else _laid_over(extended.tree, merged, kind)
        chain = [*extended.chain, *(other for other in chain if other not in extended.chain)]
        removed |= extended.removed
    if merged is not None:
        tree = _laid_over(tree, _without(merged, tree), kind)
    elif tree.get("remove") is not None:
        raise BadInput(
            "`remove` without `extends`", tree.value["remove"].key, "leave it out: nothing is inherited here"
        )
    return Extended(tree, (location, *chain), frozenset(removed))


@functools.lru_cache(maxsize=1024)  # `list` reads all files, and many of them extend the same ones
def _checked(data: bytes, shown: str, schema: str) -> Node:
    """Return the tree of a file's content, which fits its schema."""
    tree = parse(data, shown)
    check(tree, schema)
    return tree


def _parents(tree: Node, location: Location, kind: Kind, chain: Chain) -> Iterator[tuple[str, Location]]:
    for node in _list(tree.get("extends")):
        name = node.value
        if "/" in name and not name.startswith("/"):
            name = str(location.path.parent / name)
        if len(chain) > MAX_CHAIN:
            hint = "let it extend one of those directly"
            raise BadInput(f"`extends` leads through more than {MAX_CHAIN} files", node.position, hint)
        parent = locate(kind, name, node.position)
        real = os.path.realpath(parent.path)
        if real in chain:
            names = " -> ".join([*(seen.name for seen in chain.values()), parent.name])
            raise BadInput(f"`extends` goes in a circle: {names}", node.position, "remove one of these `extends`")
        yield real, parent


def _without(lower: Node, upper: Node) -> Node:
    """Return what is inherited without the packages under `remove`. Raises BadInput for one that is not in it."""
    names = {str(node.value): node for node in _list(upper.get("remove"))}
    if not names:
        return lower
    known = {*_packages(lower)}
    BadInput.raise_any(
        unknown("package to remove", name, known, node.position, listed_by="uenvtool show RECIPE")
        for name, node in names.items()
        if name not in known
    )
    tree = dict(lower.value)
    for pins in ("require", "prefer"):
        if pins in tree:
            left = {name: node for name, node in tree[pins].value.items() if name not in names}
            tree[pins] = Node(left, tree[pins].position, tree[pins].key)
    if "groups" in tree:
        groups = {name: _group_without(group, names) for name, group in tree["groups"].value.items()}
        tree["groups"] = Node(groups, tree["groups"].position, tree["groups"].key)
    return Node(tree, lower.position, lower.key)


def _packages(tree: Node) -> Iterator[str]:
    for pins in ("require", "prefer"):
        yield from tree.value[pins].value if pins in tree.value else ()
    for group in tree.value["groups"].value.values() if "groups" in tree.value else ():
        yield from map(package_of, _list(group.get("specs")))


def _group_without(group: Node, names: dict[str, Node]) -> Node:
    specs = group.get("specs")
    if specs is None:
        return group
    left = Node([entry for entry in specs.value if package_of(entry) not in names], specs.position, specs.key)
    return Node({**group.value, "specs": left}, group.position, group.key)


def _laid_over(upper: Node, lower: Node, kind: Kind, name: str = "") -> Node:
    if isinstance(upper.value, dict) and "url" in upper.value:
        return upper  # a pinned git repository: half of one and half of another would be neither
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
        return Node(kind.joined[name](upper.value, lower.value), upper.position, upper.key)
    return upper


def _list(node: Node | None) -> list[Node]:
    if node is None or node.value is None:
        return []
    return node.value if isinstance(node.value, list) else [node]

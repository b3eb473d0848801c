"""`extends`: a file's tree laid over the tree of the file that it extends.

Names are laid over names. A list that is joined (such as the specs of a group) keeps the entries
below and replaces those that are about the same thing. Any other value replaces the one below.
"""

from __future__ import annotations

from dataclasses import dataclass

from uenvtool.errors import BadInput
from uenvtool.model.kinds import Kind
from uenvtool.model.locate import Location, locate
from uenvtool.model.schema import check
from uenvtool.model.source import Node, read

_NOT_INHERITED = ("extends", "abstract")


@dataclass(frozen=True, slots=True)
class Extended:
    """A tree with everything that it inherits; `chain` is the files it came from, nearest first."""

    tree: Node
    chain: tuple[Location, ...]


def load_extended(location: Location, kind: Kind) -> Extended:
    """Read a file and all that it extends, each checked against its schema, as one tree.

    Raises BadInput for what is wrong in any of the files, and for a cycle.
    """
    chain: list[Location] = []
    trees: list[Node] = []
    here: Location | None = location
    while here is not None:
        tree = read(here.path, here.shown)
        check(tree, kind.name)
        chain.append(here)
        trees.append(tree)
        here = _parent(tree, here, kind, chain)
    merged = trees[-1]
    for tree in reversed(trees[:-1]):
        merged = _laid_over(tree, merged, kind)
    return Extended(merged, tuple(chain))


def _parent(tree: Node, here: Location, kind: Kind, chain: list[Location]) -> Location | None:
    extends = tree.get("extends")
    if extends is None:
        return None
    beside = here.path.parent
    name = extends.value
    if "/" in name and not name.startswith("/"):
        name = str(beside / name)
    parent = locate(kind, name, extends.position)
    if any(parent.path.resolve() == seen.path.resolve() for seen in chain):
        names = " -> ".join([seen.name for seen in chain] + [parent.name])
        raise BadInput(f"`extends` goes in a circle: {names}", extends.position, "remove one of these `extends`")
    return parent


def _laid_over(upper: Node, lower: Node, kind: Kind, name: str = "") -> Node:
    if isinstance(upper.value, dict) and isinstance(lower.value, dict):
        merged = {key: child for key, child in lower.value.items() if name or key not in _NOT_INHERITED}
        for key, child in upper.value.items():
            below = merged.get(key)
            merged[key] = child if below is None else _laid_over(child, below, kind, key)
        return Node(merged, upper.position, upper.key)
    if name in kind.joined and isinstance(upper.value, list) and isinstance(lower.value, list):
        identity = kind.joined[name]
        entries = {identity(child): child for child in (*lower.value, *upper.value)}
        return Node(list(entries.values()), upper.position, upper.key)
    return upper

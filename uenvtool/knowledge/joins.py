"""How a list of a file is joined with the same list of the file that it extends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from uenvtool.knowledge.source import Node
from uenvtool.knowledge.spec import SpecSyntaxError, parse_spec

Join = Callable[[list[Node], list[Node]], list[Node]]
"""Takes the entries above and those below; gives the joined list."""


def by(*names: str) -> Join:
    """Return the join in which an entry replaces the one below whose fields of these names have the same text."""

    def identity(entry: Node) -> str:
        return " ".join(str(entry.value[name].value) for name in names)

    def join(above: list[Node], below: list[Node]) -> list[Node]:
        return list({identity(entry): entry for entry in (*below, *above)}.values())

    return join


def package_of(entry: Node) -> str:
    """Return the package that an entry of a list of specs is about."""
    node = _spec_node(entry)
    try:
        return parse_spec(node.value).package or node.value
    except SpecSyntaxError:
        return str(node.value)  # reported with its column when the recipe is read


def specs(above: list[Node], below: list[Node]) -> list[Node]:
    """Lay each spec over that of the same package, variant by variant; with `replace: true` it takes its place.

    Of several specs of one package with different conditions, a spec without one is laid over each, a
    spec with a condition over the one that has the same condition.
    """
    joined = list(below)
    for entry in above:
        package = package_of(entry)
        same = [index for index, other in enumerate(joined) if package_of(other) == package]
        if _field(entry, "replace"):
            joined = [other for other in joined if package_of(other) != package]
            joined.insert(same[0] if same else len(joined), entry)
            continue
        when = _field(entry, "when")
        fitting = [index for index in same if when is None or _field(joined[index], "when") == when]
        for index in fitting:
            joined[index] = _laid_over(entry, joined[index])
        if not fitting:
            joined.append(entry)
    return joined


def _laid_over(entry: Node, below: Node) -> Node:
    """Return an entry with the variants, the reason and the condition of the one below that it does not have itself."""
    node = _spec_node(entry)
    try:
        spec = parse_spec(node.value).over(parse_spec(_spec_node(below).value))
    except SpecSyntaxError:
        return entry  # reported with its column when the recipe is read
    fields = {**_fields(below), **_fields(entry), "spec": replace(node, value=spec.text)}
    return Node(fields, entry.position, entry.key)


def _fields(entry: Node) -> dict[str, Node]:
    return entry.value if isinstance(entry.value, dict) else {}


def _field(entry: Node, name: str) -> object:
    node = _fields(entry).get(name)
    return node.value if node else None


def _spec_node(entry: Node) -> Node:
    node: Node = entry.value["spec"] if isinstance(entry.value, dict) else entry
    return node

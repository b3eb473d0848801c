"""A file of knowledge with everything that it inherits, each value with its file and line; the schema of a kind."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core.errors import BadInput, require_known, unknown
from uenvtool.core.result import Result
from uenvtool.core.yamltext import scalar
from uenvtool.knowledge.kinds import KINDS, LISTED, RECIPE, kind_of
from uenvtool.knowledge.load import load_extended
from uenvtool.knowledge.locate import available, locate
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.yamltree import Node, read

COLUMN = 60
"""Where the file and line stand, so that values and origins can be read as two columns."""


def show(name: str) -> Result:
    """Return a recipe, system or tuning file by name or path, with all that it inherits. Raises BadInput."""
    tree = resolved(name)
    return Result(data={"values": tree.plain(), "from": provenance(tree)}, file=text(tree))


def schema(name: str) -> Result:
    """Return the schema (Draft 2020-12) of a kind of file. Raises BadInput for another."""
    require_known("schema", [name], [kind.name for kind in KINDS])
    return Result(file=schema_text(name))


def resolved(name: str) -> Node:
    """Return the tree of a file by its name or path. Raises BadInput if there is none."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        location = locate(RECIPE, name)
        kind = kind_of(location.path, read(location.path, location.shown))
    else:
        kinds = [kind for kind in LISTED if name in available(kind)]
        if not kinds:
            known = [known for kind in LISTED for known in available(kind)]
            raise BadInput([unknown("name", name, known, listed_by="uenvtool list")])
        kind = kinds[0]
    return load_extended(locate(kind, name), kind).tree


def provenance(tree: Node) -> dict[str, str]:
    """Return each value's path, as `groups.cuda.specs[0]`, to FILE:LINE."""
    return {path: _origin(node) for path, node in _leaves(tree, "")}


def text(tree: Node) -> str:
    """Return the tree as YAML with the origin of each value behind it."""
    return "\n".join(_lines(tree, 0))


def _leaves(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield from _leaves(child, f"{path}.{name}" if path else name)
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path, node


def _lines(node: Node, depth: int) -> Iterator[str]:
    space = "  " * depth
    entries = (
        [(f"{scalar(name)}:", child) for name, child in node.value.items()]
        if isinstance(node.value, dict)
        else [("-", child) for child in node.value]
    )
    for lead, child in entries:
        if isinstance(child.value, dict | list) and child.value:
            nested = list(_lines(child, depth + 1))
            if lead == "-":
                yield f"{space}- {nested[0].lstrip()}"
                yield from nested[1:]
            else:
                yield f"{space}{lead}"
                yield from nested
        else:
            line = f"{space}{lead} {_value(child)}"
            yield f"{line.ljust(COLUMN)}  # {_origin(child)}"


def _value(node: Node) -> str:
    if node.value is None:
        return "null"
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    if isinstance(node.value, dict | list):
        return "{}" if isinstance(node.value, dict) else "[]"
    return str(node.value) if isinstance(node.value, int) else scalar(node.value)


def _origin(node: Node) -> str:
    return f"{node.position.file}:{node.position.line}"

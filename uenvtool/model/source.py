"""A YAML file becomes a tree of nodes, each with its position; what could surprise is refused.

Scalars keep their text where YAML 1.1 would change it: a version `3.10` stays `3.10`, a date
stays a date's text, `no` stays `no`. Only `true`, `false`, `null` and plain integers are typed.
Anchors, aliases and tags are refused: they hide where a value came from, and an alias can make a
few lines into gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position

MAX_BYTES = 2_000_000
"""No recipe or system is as large; a larger file is a mistake (a lock, a log) or an attack."""
MAX_DEPTH = 40

_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a YAML file with its position: a mapping, a list, or a scalar.

    value: dict of name to Node, list of Node, or str, int, bool, None.
    key: where the name stands, for a value in a mapping.
    """

    value: Any
    position: Position
    key: Position | None = None

    def get(self, name: str) -> Node | None:
        """The value under a name of a mapping."""
        found: Node | None = self.value.get(name)
        return found

    def at(self, path: tuple[str | int, ...]) -> Node:
        """The node that a path of names and indexes leads to."""
        node = self
        for step in path:
            node = node.value[step]
        return node

    def plain(self) -> Any:
        """The same data without positions."""
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def read(path: Path, shown: str) -> Node:
    """The tree of a YAML file; `shown` is how messages name the file.

    Raises BadInput with FILE:LINE:COL for everything that is not a plain YAML mapping in UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(
            f"cannot read it: {error.strerror or error}", Position(shown), "check the name and the permissions"
        ) from error
    return parse(data, shown)


def parse(data: bytes, shown: str) -> Node:
    """The tree of a YAML text given as bytes."""
    import yaml

    text = _decoded(data, shown)
    loader = yaml.CSafeLoader(text)
    try:
        _refuse_indirection(text, shown)
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        raise _syntax_error(error, shown) from error
    finally:
        loader.dispose()
    if root is None:
        raise BadInput("the file is empty", Position(shown), "`uenvtool show pytorch-2.6` prints an example")
    tree = _Builder(shown).node(root, None, 0)
    if not isinstance(tree.value, dict):
        raise BadInput("expected `name: value` lines", tree.position, "`uenvtool show pytorch-2.6` prints an example")
    return tree


def _decoded(data: bytes, shown: str) -> str:
    """The text; refuses what is too large, not UTF-8, or starts with a byte order mark."""
    if len(data) > MAX_BYTES:
        raise BadInput(
            f"larger than {MAX_BYTES // 1_000_000} MB", Position(shown), "a recipe or system has a few hundred lines"
        )
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise BadInput("starts with a byte order mark", Position(shown), "save the file as UTF-8 without BOM")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise BadInput(
            f"byte 0x{data[error.start]:02x} is not UTF-8", _end_of(before, shown), "save the file as UTF-8"
        ) from error
    return text


def _end_of(text: str, shown: str) -> Position:
    """The position right behind a text."""
    return Position(shown, text.count("\n") + 1, len(text) - text.rfind("\n"))


def _refuse_indirection(text: str, shown: str) -> None:
    """Refuse anchors, aliases and tags before anything is composed from them."""
    import yaml

    if not re.search(r"[&*!]", text):
        return
    for event in _events(text):
        tag = getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            what, hint = "anchors and aliases are not used here", "write the value out, or use `extends`"
        elif tag not in (None, "!"):
            what, hint = f"the tag {tag} is not used here", "quote the value if it is text"
        else:
            continue
        mark = event.start_mark
        raise BadInput(what, Position(shown, mark.line + 1, mark.column + 1), hint)


def _events(text: str) -> Iterator[Any]:
    import yaml

    yield from yaml.parse(text, Loader=yaml.CSafeLoader)


def _syntax_error(error: Any, shown: str) -> BadInput:
    """The error of a YAML reader, in our form."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = Position(shown, mark.line + 1, mark.column + 1) if mark else Position(shown)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if "cannot start any token" in problem or "tab" in problem:
        return BadInput(f"not YAML: {problem}", position, "indent with spaces; a tab cannot indent YAML")
    context = getattr(error, "context", None)
    return BadInput(f"not YAML: {problem}" + (f" ({context})" if context else ""), position, "check the indentation")


class _Builder:
    """Makes nodes of what PyYAML composed."""

    def __init__(self, shown: str) -> None:
        self.shown = shown

    def position(self, source: Any) -> Position:
        return Position(self.shown, source.start_mark.line + 1, source.start_mark.column + 1)

    def node(self, source: Any, key: Position | None, depth: int) -> Node:
        position = self.position(source)
        if depth > MAX_DEPTH:
            raise BadInput(f"nested deeper than {MAX_DEPTH} levels", position, "write it flatter")
        if source.id == "mapping":
            return Node(self.mapping(source, depth), position, key)
        if source.id == "sequence":
            return Node([self.node(child, None, depth + 1) for child in source.value], position, key)
        return Node(_scalar(source), position, key)

    def mapping(self, source: Any, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for name, child in source.value:
            position = self.position(name)
            if name.id != "scalar":
                raise BadInput("a name must be text", position, "write `name: value`")
            if name.value in found:
                first = found[name.value].key
                raise BadInput(f"{name.value!r} is here twice", position, f"it is already at {first}; keep one of them")
            found[name.value] = self.node(child, position, depth + 1)
        return found


def _scalar(source: Any) -> Any:
    """The value of a scalar: typed only where it is plain and means the same to every reader."""
    text: str = source.value
    if source.style:  # quoted or a block: text, whatever it looks like
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else text

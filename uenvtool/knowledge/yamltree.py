"""A YAML file becomes a tree of nodes, each with its position; what could surprise is refused.

Scalars keep their text although YAML 1.1 would change it: a version `3.10` stays `3.10`, a date
stays a date's text, `no` stays `no`. Only `true`, `false`, `null` and plain integers are typed.
Anchors, aliases and tags are refused: they hide the origin of a value, and an alias can make a
few lines into gigabytes.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import opened

MAX_BYTES = 2_000_000
"""No recipe or system is as large; a larger file is a mistake (a lock, a log) or an attack."""
MAX_DEPTH = 40
MAX_VALUES = 100_000
"""A recipe of 10,000 packages, each with a reason, has half of it."""

EXAMPLES = "`uenvtool show pytorch-2.6` prints a recipe, `uenvtool show clariden` a system"
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a YAML file with its position: a mapping, a list, or a scalar.

    value: dict of name to Node, list of Node, or str, int, bool, None.
    key: the position of the name, for a value in a mapping.
    """

    value: Any
    position: Position
    key: Position | None = None

    def get(self, name: str) -> Node | None:
        """Return the value under a name of a mapping."""
        found: Node | None = self.value.get(name)
        return found

    def each(self) -> list[Node]:
        """Return the values of a list; a value that is none is a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    def at(self, path: tuple[str | int, ...]) -> Node:
        """Return the node that a path of names and indexes leads to."""
        node = self
        for step in path:
            node = node.value[step]
        return node

    def plain(self) -> Any:
        """Return the same data without positions."""
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def text(node: Node | None, name: str) -> str:
    """Return the text of a mapping's field, white space folded; empty if there is none."""
    child = node.get(name) if node is not None and isinstance(node.value, dict) else None
    return "" if child is None or child.value is None else " ".join(str(child.value).split())


def read(path: Path, shown: str) -> Node:
    """Return the tree of a YAML file; `shown` is how messages name the file.

    Raises BadInput with FILE:LINE:COL for everything that is not a plain YAML mapping in UTF-8.
    """
    return parse(content(path, shown), shown)


@functools.lru_cache(maxsize=256)  # several readers want a file's tree, and nobody changes one
def parse(data: bytes, shown: str) -> Node:
    """Return the tree of a YAML text given as bytes. Raises BadInput as `read` does."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(decoded(data, shown))
    try:
        tree = _Builder(loader, shown).document()
    except yaml.YAMLError as error:
        raise _syntax_error(error, shown) from error
    finally:
        loader.dispose()
    if tree is None:
        raise BadInput("the file is empty", Position(shown), EXAMPLES)
    if not isinstance(tree.value, dict):
        raise BadInput("expected `name: value` lines", tree.position, EXAMPLES)
    return tree


def content(path: Path, shown: str) -> bytes:
    """Return the bytes of a regular file, at most one more than may be read.

    Raises BadInput if it cannot be read; a pipe or a device, which may never end, is refused before it is.
    """
    try:
        with opened(path, shown) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = "No such file or directory" if isinstance(error, FileNotFoundError) else error
        raise BadInput(f"cannot read it: {why}", Position(shown), "check the name and the permissions") from error


def decoded(data: bytes, shown: str) -> str:
    """Return the text; refuses what is too large, not UTF-8, or starts with a byte order mark."""
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
    return Position(shown, text.count("\n") + 1, len(text) - text.rfind("\n"))


_WAYS_OUT = {
    "mapping values are not allowed": "quote a value that has a colon in it, or check the indentation",
    "block sequence entries are not allowed": "put the list below its name, indented",
    "did not find expected key": "check the indentation, and that every quote and bracket above is closed",
    "did not find expected node content": "a value is missing here, or a `[` or `{` above is not closed",
    "did not find expected ',' or": "a `[` or `{` above is not closed, or a comma is missing",
    "control characters": "take it out, or save the file as text in UTF-8",
    "found character that cannot start": "quote a value that begins with it; a tab cannot indent YAML, spaces can",
}
"""What mends a text that is not YAML, by words of libyaml 0.2.5."""


def _syntax_error(error: Any, shown: str) -> BadInput:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    position = Position(shown, mark.line + 1, mark.column + 1) if mark else Position(shown)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    context = getattr(error, "context", None)
    opened = getattr(error, "context_mark", None)
    if "quoted scalar" in (context or "") and "end of stream" in problem and opened:
        place = Position(shown, opened.line + 1, opened.column + 1)
        return BadInput("not YAML: a quote is opened here and never closed", place, "close it, or take it out")
    hint = next((way_out for words, way_out in _WAYS_OUT.items() if words in problem), "check the indentation")
    return BadInput(f"not YAML: {problem}" + (f" ({context})" if context else ""), position, hint)


class _Builder:
    """Makes nodes of the events of PyYAML's parser.

    Its composer would recurse in C as deep as the text is nested, which ends the process. Anchors,
    aliases and tags are seen here before anything is made of them.
    """

    def __init__(self, loader: Any, shown: str) -> None:
        from yaml import events

        self.next_event, self.events = loader.get_event, events
        self.shown = shown
        self.values = 0

    def document(self) -> Node | None:
        """Return the one document of a text; None if the text is empty."""
        self.next_event()  # the stream's start
        if isinstance(self.next_event(), self.events.StreamEndEvent):
            return None
        tree = self.node(self.next_event(), None, 0)
        self.next_event()  # the document's end
        if not isinstance(event := self.next_event(), self.events.StreamEndEvent):
            place = Position(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)
            raise BadInput("not YAML of one document: a second one starts here", place, "split the file")
        return tree

    def node(self, event: Any, key: Position | None, depth: int) -> Node:
        position = Position(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)
        if event.anchor or event.tag:
            self.refuse_indirection(event, position)
        self.values += 1
        if depth > MAX_DEPTH:
            raise BadInput(f"nested deeper than {MAX_DEPTH} levels", position, "write it flatter")
        if self.values > MAX_VALUES:
            raise BadInput(f"more than {MAX_VALUES} values", position, "a recipe or system has a few hundred")
        if isinstance(event, self.events.ScalarEvent):
            return Node(_scalar(event), position, key)
        is_mapping = isinstance(event, self.events.MappingStartEvent)
        return Node(self.mapping(depth) if is_mapping else self.sequence(depth), position, key)

    def sequence(self, depth: int) -> list[Node]:
        found = []
        while not isinstance(event := self.next_event(), self.events.SequenceEndEvent):
            found.append(self.node(event, None, depth + 1))
        return found

    def mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while not isinstance(name := self.next_event(), self.events.MappingEndEvent):
            position = Position(self.shown, name.start_mark.line + 1, name.start_mark.column + 1)
            if name.anchor or name.tag:
                self.refuse_indirection(name, position)
            if not isinstance(name, self.events.ScalarEvent):
                raise BadInput("a name must be text", position, "write `name: value`")
            if name.value in found:
                first = found[name.value].key
                raise BadInput(f"{name.value!r} is here twice", position, f"it is already at {first}; keep one of them")
            found[name.value] = self.node(self.next_event(), position, depth + 1)
        return found

    def refuse_indirection(self, event: Any, position: Position) -> None:
        """Refuse what hides where a value came from, or makes much of little."""
        if event.anchor:  # of an alias too
            hint = "write the value out, or use `extends`"
            raise BadInput("anchors and aliases are not used here", position, hint)
        if event.tag != "!":
            raise BadInput(f"the tag {event.tag} is not used here", position, "quote the value if it is text")


def _scalar(event: Any) -> Any:
    """Return the value of a scalar: typed only if it is plain and means the same to every reader."""
    text: str = event.value
    if event.style:  # quoted or a block: text, whatever it looks like
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else text

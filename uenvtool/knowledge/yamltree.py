"""Reads a YAML file into a tree of nodes with positions, and rejects YAML features with surprising effects.

Scalars keep their text although YAML 1.1 would change it. The version `3.10` stays `3.10`, a date stays a text, and
`no` stays `no`. Only `true`, `false`, `null` and plain integers are typed. Anchors, aliases and tags are rejected. They
hide the origin of a value, and an alias can expand a few lines to gigabytes.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import opened
from uenvtool.core.limits import limited

MAX_BYTES = 2_000_000
"""The maximum number of bytes of a file. A larger file is a mistake (a lock or a log) or an attack."""
MAX_DEPTH = 40
MAX_VALUES = 100_000
"""The maximum number of values in a file. A recipe with 10,000 packages and their reasons has half as many."""

EXAMPLES = "see an example with `uenvtool show pytorch-2.6` (a recipe) or `uenvtool show clariden` (a system)"
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,17})\Z")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True)
class Node:
    """A mapping, list or scalar of a YAML file with its position.

    value: A dict from name to Node, a list of Node, or a str, int, bool or None.
    key: The position of the name, for a value in a mapping.
    """

    value: Any
    position: Position
    key: Position | None = None

    def get(self, name: str) -> Node | None:
        node: Node | None = self.value.get(name)
        return node

    def each(self) -> list[Node]:
        """Return the items of a list, or any other value as a list with one item."""
        return self.value if isinstance(self.value, list) else [self]

    def at(self, path: tuple[str | int, ...]) -> Node:
        node = self
        for step in path:
            node = node.value[step]
        return node

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def is_abstract(tree: Node) -> bool:
    """Return whether other files can extend a file, but no command can use it directly."""
    abstract = tree.get("abstract")
    return abstract is not None and abstract.value is True


def text(node: Node | None, name: str) -> str:
    """Return the text under a name of a mapping, with folded white space. A missing value is an empty string."""
    child = node.get(name) if node is not None and isinstance(node.value, dict) else None
    return "" if child is None or child.value is None else " ".join(str(child.value).split())


def read(path: Path, shown: str) -> Node:
    """Return the tree of a YAML file. shown: The name of the file in messages.

    Raises BadInput with FILE:LINE:COL if the file is not a plain YAML mapping in UTF-8.
    """
    return parse(content(path, shown), shown)


@functools.lru_cache(maxsize=256)  # several readers use the tree of a file, and none of them changes it
def parse(data: bytes, shown: str) -> Node:
    """Return the tree of a YAML text. Raises BadInput as `read` does."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(decoded(data, shown))
    try:
        with limited(shown):
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
    """Return the bytes of a regular file, at most one more than MAX_BYTES. Raises BadInput if they cannot be read.

    A pipe or device, which may never end, is rejected without reading it.
    """
    try:
        with opened(path, shown) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = "No such file or directory" if isinstance(error, FileNotFoundError) else error
        hint = "check the file's name and permissions"
        raise BadInput(f"cannot read the file: {why}", Position(shown), hint) from error


def decoded(data: bytes, shown: str) -> str:
    """Decode UTF-8 bytes. Raises BadInput if they are too long, are not UTF-8, or begin with a byte order mark."""
    if len(data) > MAX_BYTES:
        raise BadInput(
            f"the file is larger than {MAX_BYTES // 1_000_000} MB",
            Position(shown),
            "check the file's name; a recipe or system has a few hundred lines",
        )
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise BadInput("the file starts with a byte order mark", Position(shown), "save it as UTF-8 without BOM")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        place = Position(shown, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise BadInput(f"byte 0x{data[error.start]:02x} is not UTF-8", place, "save the file as UTF-8") from error
    return text


_HINTS = {
    "mapping values are not allowed": "quote values that contain a colon, or correct the indentation",
    "block sequence entries are not allowed": "put the list below its name, indented",
    "did not find expected key": "correct the indentation, or close every quote and bracket above",
    "did not find expected node content": "add the missing value, or close the `[` or `{` above",
    "did not find expected ',' or": "close the `[` or `{` above, or add the missing comma",
    "control characters": "delete the control character, or save the file as text in UTF-8",
    "found character that cannot start": "quote the value that begins with it, or replace tabs with spaces",
}
"""The hints for YAML errors, by a part of the message of libyaml 0.2.5."""


def _syntax_error(error: Any, shown: str) -> BadInput:
    opened, context = getattr(error, "context_mark", None), getattr(error, "context", None)
    mark = getattr(error, "problem_mark", None) or opened
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if "quoted scalar" in (context or "") and "end of stream" in problem and opened:
        return BadInput(
            "not valid YAML: this quote is never closed", _at(opened, shown), "close the quote, or delete it"
        )
    position = _at(mark, shown) if mark else Position(shown)
    hint = next((hint for message, hint in _HINTS.items() if message in problem), "correct the indentation")
    return BadInput(f"not valid YAML: {problem}" + (f" ({context})" if context else ""), position, hint)


class _Builder:
    """Builds nodes from the events of PyYAML's parser and rejects anchors, aliases and tags.

    PyYAML's composer recurses in C as deep as the text is nested, which can crash the process.
    """

    def __init__(self, loader: Any, shown: str) -> None:
        from yaml import events

        self.next_event, self.events = loader.get_event, events
        self.shown = shown
        self.values = 0

    def document(self) -> Node | None:
        """Return the only document of a text, or None if the text is empty."""
        self.next_event()  # the stream's start
        if isinstance(self.next_event(), self.events.StreamEndEvent):
            return None
        tree = self.node(self.next_event(), None, 0)
        self.next_event()  # the document's end
        if not isinstance(event := self.next_event(), self.events.StreamEndEvent):
            place = _at(event.start_mark, self.shown)
            raise BadInput("a second YAML document starts here", place, "split the file into one file per document")
        return tree

    def node(self, event: Any, key: Position | None, depth: int) -> Node:
        position = _at(event.start_mark, self.shown)
        if event.anchor or event.tag:
            self.refuse_indirection(event, position)
        self.values += 1
        if depth > MAX_DEPTH:
            raise BadInput(f"the value is nested deeper than {MAX_DEPTH} levels", position, "use fewer levels")
        if self.values > MAX_VALUES:
            hint = "check the file's name; a recipe or system has a few hundred values"
            raise BadInput(f"the file has more than {MAX_VALUES} values", position, hint)
        if isinstance(event, self.events.ScalarEvent):
            return Node(_scalar(event), position, key)
        is_mapping = isinstance(event, self.events.MappingStartEvent)
        return Node(self.mapping(depth) if is_mapping else self.sequence(depth), position, key)

    def sequence(self, depth: int) -> list[Node]:
        items = []
        while not isinstance(event := self.next_event(), self.events.SequenceEndEvent):
            items.append(self.node(event, None, depth + 1))
        return items

    def mapping(self, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(name := self.next_event(), self.events.MappingEndEvent):
            position = _at(name.start_mark, self.shown)
            if name.anchor or name.tag:
                self.refuse_indirection(name, position)
            if not isinstance(name, self.events.ScalarEvent):
                raise BadInput("the key of a mapping must be text", position, "write `name: value`")
            if name.value in entries:
                first = entries[name.value].key
                raise BadInput(f"{name.value!r} is already set at {first}", position, "delete one of the two")
            entries[name.value] = self.node(self.next_event(), position, depth + 1)
        return entries

    def refuse_indirection(self, event: Any, position: Position) -> None:
        if event.anchor:  # events of aliases also have it
            hint = "repeat the value, or use `extends`"
            raise BadInput("YAML anchors and aliases are not supported", position, hint)
        if event.tag != "!":
            hint = "delete the tag; quote the value if it is a text"
            raise BadInput(f"the YAML tag {event.tag} is not supported", position, hint)


def _at(mark: Any, shown: str) -> Position:
    return Position(shown, mark.line + 1, mark.column + 1)


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.style:  # quoted or a block: text, whatever it looks like
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else text

"""Edits YAML text. An edit changes only the characters of the edited value.

ruamel.yaml finds the position of each value, but this module writes the text. ruamel.yaml's writer would also reformat
unrelated lines: spaces around values and in `[ ... ]`, the indentation of lists, folded text, and CRLF.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.core.yamltext import remark, scalar

_COMMA = re.compile(r"(?:\s|#[^\n]*\n)*,")
Names = tuple[str, ...]
"""The keys from the top of a file to a value."""
Value = str | list[str] | dict[str, "Value"]
"""A value to write: the YAML text of a scalar, a list of such texts, or a mapping from keys to values."""


def pairs(node: Any) -> list[tuple[Any, Any]]:
    """Return the keys and values of a mapping node, or [] for any other node."""
    value = getattr(node, "value", None)
    return [pair for pair in value if isinstance(pair, tuple)] if isinstance(value, list) else []


class Document:
    """YAML text whose top level is a mapping. Every edit returns a new document."""

    def __init__(self, text: str) -> None:
        from ruamel.yaml import YAML

        self.text = text
        self.top = YAML(typ="safe", pure=True).compose(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def at(self, *names: str) -> Any:
        """Return the node at a path of keys, or None if a key is missing."""
        node = self.top
        for name in names:
            node = next((value for key, value in pairs(node) if key.value == name), None)
        return node

    def replaced(self, node: Any, text: str) -> Document:
        """Replace the text of a scalar or a flow collection, and keep its quotes if it has any."""
        start, end = node.start_mark.index, self._end(node)
        quote = self.text[start : start + 1]
        if quote in ("'", '"') and text == scalar(text):
            text = f"{quote}{text}{quote}"
        return self._with(start, end, text)

    def with_value(self, names: Names, text: str) -> Document:
        """Set the value of an existing key, which may be empty."""
        node = self.at(*names)
        if node.start_mark.index < node.end_mark.index:
            return self.replaced(node, text)
        key = next(key for key, _ in pairs(self.at(*names[:-1])) if key.value == names[-1])
        after_colon = self.text.index(":", self._end(key)) + 1
        return self._with(after_colon, after_colon, f" {text}")

    def with_item(self, sequence: Any, item: str) -> Document:
        items = sequence.value
        if sequence.flow_style:
            return self._with_flow(sequence, items[-1] if items else None, item)
        return self._with_lines(self._end(items[-1]), [f"{' ' * sequence.start_mark.column}- {item}"])

    def with_key(self, mapping: Any, name: str, value: Value) -> Document:
        if mapping.flow_style:
            last = mapping.value[-1][1] if mapping.value else None
            return self._with_flow(mapping, last, f"{scalar(name)}: {_flow(value)}")
        indent = " " * mapping.start_mark.column
        return self._with_lines(self._end(mapping), [indent + line for line in _block(name, value)])

    def with_path(self, names: Names, value: Value) -> Document:
        """Add the value of a key, and the mappings above the key that do not exist yet."""
        known = next(depth for depth in reversed(range(len(names))) if self.at(*names[:depth]) is not None)
        for name in reversed(names[known + 1 :]):
            value = {name: value}
        return self.with_key(self.at(*names[:known]), names[known], value)

    def without_item(self, names: Names, index: int) -> Document:
        """Remove an item from the list at a path of keys, but not the comments around the item."""
        sequence = self.at(*names)
        item = sequence.value[index]
        if sequence.flow_style:
            return self._without_flow(sequence.value, index)
        start = self.text.rfind("\n", 0, item.start_mark.index) + 1
        while self.text[start + sequence.start_mark.column] != "-":  # skip comment lines after the dash
            start = self.text.rfind("\n", 0, start - 1) + 1
        shorter = self._with(start, self._line_end(self._end(item)), "")
        return shorter if len(sequence.value) > 1 else shorter.with_value(names, "[]")

    def with_comment(self, node: Any, text: str) -> Document:
        """Add a comment to the last line of a value. Raises BadInput if other text follows the value on that line."""
        end = self._end(node)
        rest = self.text[end : self._line_end(end)].rstrip("\r\n")
        if rest.strip() and not rest.lstrip().startswith("#"):
            raise BadInput(
                "--reason: the last line of this list contains more text after the list", hint="omit --reason"
            )
        return self._with(end + len(rest), end + len(rest), remark(text))

    def _end(self, node: Any) -> int:  # without the comments and line breaks that follow the value
        if hasattr(node, "flow_style") and not node.flow_style and isinstance(node.value, list) and node.value:
            last = node.value[-1]
            if isinstance(last, tuple):  # an empty value ends with the colon
                return max(self._end(last[1]), self.text.index(":", self._end(last[0])) + 1)
            return self._end(last)
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        return start + len(self.text[start:end].rstrip())

    def _with(self, start: int, end: int, text: str) -> Document:
        return Document(self.text[:start] + text + self.text[end:])

    def _with_lines(self, index: int, lines: Sequence[str]) -> Document:
        at = self._line_end(index)
        before = "" if self.text[:at].endswith("\n") else self.newline
        return self._with(at, at, before + "".join(line + self.newline for line in lines))

    def _with_flow(self, collection: Any, last: Any, text: str) -> Document:
        at = self._end(last) if last is not None else collection.start_mark.index + 1
        return self._with(at, at, f", {text}" if last is not None else text)

    def _without_flow(self, items: Sequence[Any], index: int) -> Document:
        start, end = items[index].start_mark.index, self._end(items[index])
        following = _COMMA.match(self.text, end)
        if following and not following[0].strip().startswith("#"):
            rest = self.text[following.end() :]
            return self._with(start, following.end() + len(rest) - len(rest.lstrip(" \t")), "")
        comma = _COMMA.match(self.text, self._end(items[index - 1])) if index else None
        if comma is None:
            return self._with(start, end, "")
        return Document(self.text[: comma.end() - 1] + self.text[comma.end() : start] + self.text[end:])

    def _line_end(self, index: int) -> int:
        line_break = self.text.find("\n", index)
        return len(self.text) if line_break < 0 else line_break + 1


def _flow(value: Value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {_flow(inner)}" for name, inner in value.items()) + "}"
    return f"[{', '.join(value)}]" if isinstance(value, list) else value


def _block(name: str, value: Value) -> list[str]:
    if isinstance(value, dict):
        lines = [line for key, inner in value.items() for line in _block(key, inner)]
        return [f"{scalar(name)}:", *(f"  {line}" for line in lines)]
    if isinstance(value, list):
        return [f"{scalar(name)}:", *(f"- {item}" for item in value)]
    return [f"{scalar(name)}: {value}"]

"""A YAML text with the place of each of its values: an edit puts characters there, and no others.

ruamel.yaml says where each value begins and ends. It does not write the text: that would set spaces around values and
in `[ ... ]`, the indentation of lists, line breaks of folded texts and CRLF its own way, also in lines that an edit is
not about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.core.yamltext import remark, scalar

_COMMA = re.compile(r"(?:\s|#[^\n]*\n)*,")
Names = tuple[str, ...]
"""The keys that lead from the top of a file to a value."""
Value = str | list[str] | dict[str, "Value"]
"""What is put into a file: the text of a value, a list of them, or names with theirs."""


def pairs(node: Any) -> list[tuple[Any, Any]]:
    """Return the names of a mapping with their values; none of another node."""
    value = getattr(node, "value", None)
    return [pair for pair in value if isinstance(pair, tuple)] if isinstance(value, list) else []


class Document:
    """A text of YAML whose top is a mapping, with the place of each of its values. Each edit gives a new one."""

    def __init__(self, text: str) -> None:
        from ruamel.yaml import YAML

        self.text = text
        self.top = YAML(typ="safe", pure=True).compose(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def at(self, *names: str) -> Any:
        """Return the node that names lead to from the top; None if one is missing."""
        node = self.top
        for name in names:
            node = next((value for key, value in pairs(node) if key.value == name), None)
        return node

    def replaced(self, node: Any, text: str) -> Document:
        """Put another text in the place of a scalar or a flow collection, in the same quotes if it had some."""
        start, end = node.start_mark.index, self._end(node)
        quote = self.text[start : start + 1]
        if quote in ("'", '"') and text == scalar(text):
            text = f"{quote}{text}{quote}"
        return self._with(start, end, text)

    def with_value(self, names: Names, text: str) -> Document:
        """Put another value behind a name, which may have none."""
        node = self.at(*names)
        if node.start_mark.index < node.end_mark.index:
            return self.replaced(node, text)
        key = next(key for key, _ in pairs(self.at(*names[:-1])) if key.value == names[-1])
        behind = self.text.index(":", self._end(key)) + 1
        return self._with(behind, behind, f" {text}")

    def with_item(self, sequence: Any, item: str) -> Document:
        """Put one more item, in one line, at the end of a list."""
        items = sequence.value
        if sequence.flow_style:
            return self._with_flow(sequence, items[-1] if items else None, item)
        return self._with_lines(self._end(items[-1]), [f"{' ' * sequence.start_mark.column}- {item}"])

    def with_entry(self, mapping: Any, name: str, value: Value) -> Document:
        """Put one more name at the end of a mapping."""
        if mapping.flow_style:
            last = mapping.value[-1][1] if mapping.value else None
            return self._with_flow(mapping, last, f"{scalar(name)}: {_flow(value)}")
        indent = " " * mapping.start_mark.column
        return self._with_lines(self._end(mapping), [indent + line for line in _block(name, value)])

    def without_item(self, names: Names, index: int) -> Document:
        """Take one item out of the list that names lead to; the comments around it stay."""
        sequence = self.at(*names)
        item = sequence.value[index]
        if sequence.flow_style:
            return self._without_flow(sequence.value, index)
        start = self.text.rfind("\n", 0, item.start_mark.index) + 1
        while self.text[start + sequence.start_mark.column] != "-":  # a comment stands between
            start = self.text.rfind("\n", 0, start - 1) + 1
        shorter = self._with(start, self._line_end(self._end(item)), "")
        return shorter if len(sequence.value) > 1 else shorter.with_value(names, "[]")

    def with_remark(self, node: Any, text: str) -> Document:
        """Put a comment at the end of the line that a value ends in. Raises BadInput if more stands there."""
        end = self._end(node)
        rest = self.text[end : self._line_end(end)].rstrip("\r\n")
        if rest.strip() and not rest.lstrip().startswith("#"):
            raise BadInput("there is no place for a comment beside this list", hint="leave --reason out")
        return self._with(end + len(rest), end + len(rest), remark(text))

    def _end(self, node: Any) -> int:
        """Return the index behind the last character of a value, without comments and line breaks that follow it."""
        if hasattr(node, "flow_style") and not node.flow_style and isinstance(node.value, list) and node.value:
            last = node.value[-1]
            if isinstance(last, tuple):  # an empty value ends with the colon
                return max(self._end(last[1]), self.text.index(":", self._end(last[0])) + 1)
            return self._end(last)
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        return start + len(self.text[start:end].rstrip())

    def _with(self, start: int, end: int, text: str) -> Document:
        return Document(self.text[:start] + text + self.text[end:])

    def _with_lines(self, behind: int, lines: Sequence[str]) -> Document:
        at = self._line_end(behind)
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
        """Return the index behind the line break of a line; the text's end if it has none."""
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found + 1


def _flow(value: Value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(name)}: {_flow(inner)}" for name, inner in value.items()) + "}"
    return f"[{', '.join(value)}]" if isinstance(value, list) else value


def _block(name: str, value: Value) -> list[str]:
    if isinstance(value, dict):
        inner = [line for key, further in value.items() for line in _block(key, further)]
        return [f"{scalar(name)}:", *(f"  {line}" for line in inner)]
    if isinstance(value, list):
        return [f"{scalar(name)}:", *(f"- {item}" for item in value)]
    return [f"{scalar(name)}: {value}"]

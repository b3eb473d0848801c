"""A YAML text with the place of each of its values: an edit replaces or inserts characters there, and no others.

ruamel.yaml says where each value begins and ends. It does not write the text again, since it would set
spaces, line breaks and quotes of untouched lines its own way.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.core.yamltext import remark, scalar

_COMMA = re.compile(r"(?:\s|#[^\n]*\n)*,")


class Document:
    """A text of YAML whose top is a mapping. Each edit gives a new one."""

    def __init__(self, text: str) -> None:
        from ruamel.yaml import YAML

        self.text = text
        self.top = YAML(typ="safe", pure=True).compose(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def at(self, *names: str) -> Any:
        """Return the node that names lead to from the top; None if one is missing."""
        node = self.top
        for name in names:
            node = next((value for key, value in _pairs(node) if key.value == name), None)
            if node is None:
                return None
        return node

    def replaced(self, node: Any, text: str) -> Document:
        """Return with another text in the place of a scalar or a flow collection, in the same quotes if it had some."""
        start, end = node.start_mark.index, self.end(node)
        old = self.text[start:end]
        if old[:1] == "'" and text == scalar(text):
            text = f"'{text}'"
        elif old[:1] == '"' and text == scalar(text):
            text = f'"{text}"'
        return self._with(start, end, text)

    def with_value(self, names: tuple[str, ...], text: str) -> Document:
        """Return with another value for the name that names lead to, which may have none."""
        node = self.at(*names)
        if node.start_mark.index < node.end_mark.index:
            return self.replaced(node, text)
        behind = self._behind_colon(names)
        return self._with(behind, behind, f" {text}")

    def with_item(self, sequence: Any, item: str) -> Document:
        """Return with one more item, in one line, at the end of a list."""
        items = sequence.value
        if sequence.flow_style:
            return self._with_flow(sequence, items[-1] if items else None, item)
        return self._with_line(self.end(items[-1]), f"{' ' * sequence.start_mark.column}- {item}")

    def with_entry(self, mapping: Any, name: str, lines: Sequence[str], flow: str) -> Document:
        """Add a name at the end of a mapping. lines: its value, behind and below it; flow: in one line."""
        if mapping.flow_style:
            last = mapping.value[-1][1] if mapping.value else None
            return self._with_flow(mapping, last, f"{scalar(name)}: {flow}")
        first, *below = lines
        whole = [f"{scalar(name)}: {first}".rstrip(), *below]
        indent = " " * mapping.start_mark.column
        return self._with_line(self.end(mapping), self.newline.join(indent + line for line in whole))

    def without_item(self, names: tuple[str, ...], index: int) -> Document:
        """Return without one item of the list that names lead to; the comments around it stay."""
        sequence = self.at(*names)
        item = sequence.value[index]
        if sequence.flow_style:
            return self._without_flow(sequence.value, index)
        start = self._line_start(item.start_mark.index)
        while self.text[start + sequence.start_mark.column] != "-":  # a comment stands between
            start = self._line_start(start - 1)
        shorter = self._with(start, self._line_end(self.end(item)), "")
        return shorter if len(sequence.value) > 1 else shorter.with_value(names, "[]")

    def with_remark(self, node: Any, text: str) -> Document:
        """Return with a comment at the end of the line that a value ends in. Raises BadInput if more stands there."""
        line = self.text[self.end(node) : self._line_end(self.end(node))]
        rest = line.rstrip("\r\n")
        if rest.strip() and not rest.lstrip().startswith("#"):
            raise BadInput("there is no place for a comment beside this list", hint="leave --reason out")
        at = self.end(node) + len(rest)
        return self._with(at, at, remark(text))

    def end(self, node: Any) -> int:
        """Return the index behind the last character of a value, without comments and line breaks that follow it."""
        if hasattr(node, "flow_style") and not node.flow_style and isinstance(node.value, list) and node.value:
            last = node.value[-1]
            if isinstance(last, tuple):  # an empty value ends with the colon
                return max(self.end(last[1]), self.text.index(":", self.end(last[0])) + 1)
            return self.end(last)
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        return start + len(self.text[start:end].rstrip())

    def _behind_colon(self, names: tuple[str, ...]) -> int:
        key = next(key for key, _ in _pairs(self.at(*names[:-1])) if key.value == names[-1])
        return self.text.index(":", self.end(key)) + 1

    def _with(self, start: int, end: int, text: str) -> Document:
        return Document(self.text[:start] + text + self.text[end:])

    def _with_line(self, behind: int, line: str) -> Document:
        at = self._line_end(behind)
        before = "" if self.text[:at].endswith("\n") else self.newline
        return self._with(at, at, f"{before}{line}{self.newline}")

    def _with_flow(self, collection: Any, last: Any, text: str) -> Document:
        at = self.end(last) if last is not None else collection.start_mark.index + 1
        return self._with(at, at, f", {text}" if last is not None else text)

    def _without_flow(self, items: Sequence[Any], index: int) -> Document:
        start, end = items[index].start_mark.index, self.end(items[index])
        following = _COMMA.match(self.text, end)
        if following and not following[0].strip().startswith("#"):
            rest = re.compile(r"[ \t]*").match(self.text, following.end())
            return self._with(start, rest.end() if rest else following.end(), "")
        if index == 0:
            return self._with(start, end, "")
        comma = _COMMA.match(self.text, self.end(items[index - 1]))
        shorter = self._with(start, end, "").text
        at = comma.end() - 1 if comma else start
        return Document(shorter[:at] + shorter[at + 1 :])

    def _line_start(self, index: int) -> int:
        return self.text.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        """Return the index behind the line break of a line; the text's end if it has none."""
        found = self.text.find("\n", index)
        return len(self.text) if found < 0 else found + 1


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    return [pair for pair in node.value if isinstance(pair, tuple)] if isinstance(node.value, list) else []

"""Reads the comments of a YAML file, so that a converted file can keep each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from uenvtool.knowledge.yamltree import Node


class Comments:
    """The comments of a YAML text. Each method that returns comments also removes them."""

    def __init__(self, text: str) -> None:
        self._texts: dict[int, str] = {}
        self._columns: dict[int, int] = {}
        """The columns of the comments that have a line of their own, counted from 1."""
        self._blank = set[int]()
        for number, (line, begin) in enumerate(_with_comment(text), 1):
            if begin is None:
                self._blank |= set() if line.strip() else {number}
            elif words := line[begin:].strip("# \t"):
                self._texts[number] = words
                if not line[:begin].strip():
                    self._columns[number] = begin + 1

    def take(self, first: int, last: int) -> str:
        """Return the comments in a range of lines as one text, with a semicolon between separate comments."""
        numbers = [number for number in range(first, last + 1) if number in self._texts]
        ends = {number: " " if number + 1 in self._columns else "; " for number in numbers}
        return "".join(self._texts.pop(number) + end for number, end in ends.items()).rstrip("; ")

    def of(self, node: Node | None) -> str:
        """Return the comments in the lines of a node and directly above it."""
        if node is None:
            return ""
        start = (node.key or node.position).line
        return self.take(self.start(start), _last_line(node))

    def start(self, line: int) -> int:
        """Return the first of the comment lines directly above a line, or the line itself."""
        while line - 1 in self._columns:
            line -= 1
        return line

    def above(self, first: int, last: int) -> tuple[str, ...]:
        """Return the comments in a range of lines that have a line of their own."""
        numbers = [number for number in range(first, last + 1) if number in self._columns and number in self._texts]
        return tuple(self._texts.pop(number) for number in numbers)

    def below(self, line: int, column: int) -> tuple[str, ...]:
        """Return the comments after a line, up to the next value, that begin in a column or to the right of it."""
        last = line
        while last + 1 in self._blank or self._columns.get(last + 1, 0) >= column:
            last += 1
        return self.above(line + 1, last)

    def rest(self, lines: Iterable[range]) -> Iterator[tuple[int, str]]:
        """Yield the remaining comments in ranges of lines, each with its first line."""
        ranges = tuple(lines)
        for number in [number for number in self._texts if any(number in each for each in ranges)]:
            if number in self._texts:  # not part of the comment before it
                last = number
                while last + 1 in self._columns and last + 1 in self._texts:
                    last += 1
                yield number, self.take(number, last)


def _last_line(node: Node) -> int:
    below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    return max((_last_line(child) for child in below), default=node.position.line)


def _with_comment(text: str) -> Iterator[tuple[str, int | None]]:
    """Yield each line with the index at which its comment begins, or None without a comment."""
    import yaml

    lines = text.splitlines()
    scalars: dict[int, list[tuple[int, int]]] = {}
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.ScalarToken):
            start, end = token.start_mark, token.end_mark
            for number in range(start.line, end.line + 1):
                begin = start.column if number == start.line else 0
                scalars.setdefault(number, []).append((begin, end.column if number == end.line else 1 << 30))
    for number, line in enumerate(lines):
        begins = (match.start() for match in re.finditer(r"(?<!\S)#", line))
        spans = scalars.get(number, ())
        yield line, next((at for at in begins if not any(start <= at < end for start, end in spans)), None)

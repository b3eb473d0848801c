"""Sizes and lists in a sentence; sentences in lines; names of Python packages; pairs by their first halves; paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_WORD = re.compile(r"(?:`[^`\n]*`|\S)+")
"""What no line breaks: a word, and a command between backticks, which is there to be copied."""


def size_text(size: float) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


def counted(number: int, thing: str) -> str:
    """Return `1 package`, `2 packages`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def listed(words: Sequence[str], most: int) -> str:
    """Return words in a line; of many the first ones, and how many there are more."""
    more = len(words) - most
    return ", ".join(words) if more <= 0 else f"{', '.join(words[:most])} and {more} more"


def wrapped(text: str, width: int, first: str = "", indent: str = "") -> list[str]:
    """Return a text as lines of that width, if its words let them; `first` stands before it, `indent` before the rest.

    A path or a command that is longer than a line gets one of its own, which a terminal breaks and copies whole.
    """
    lines, line = [], first
    for word in _WORD.findall(text):
        is_begun = line not in (first, indent)
        if is_begun and len(line) + 1 + len(word) > width:
            lines.append(line)
            line, is_begun = indent, False
        line += f" {word}" if is_begun else word
    return [*lines, line]


def canonical(name: str) -> str:
    """Return the name of a Python package as resolvers compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_within(path: str, folder: str) -> bool:
    """Tell if a path is a folder or below it, by their texts alone; nothing is below a folder without a name."""
    return bool(folder) and f"{path}/".startswith(f"{folder.rstrip('/')}/")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return each key with its values, both in the order in which they come first."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found

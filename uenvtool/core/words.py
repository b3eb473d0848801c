"""Text helpers: sizes, counts and lists in sentences, line wrapping, package names, paths, URLs and grouping."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_WORD = re.compile(r"(?:`[^`\n]*`|\S)+")
"""Text that is never wrapped: a word, or a command in backticks, which a user copies."""
_LOGIN = re.compile(
    r"(?<=://)(?!git@|\(hidden\)@|(?:\$\{?\w+\}?|[\w.-]*):?(?:\$\{?\w+\}?)@)"
    r"(?:[^\s/?#\"'<>\\]|'(?![\s,;)\]}]|\Z))*@"
)
"""The user and password of a URL (RFC 3986), except the ones that PEP 610 allows in files: `git` and variables."""


def size_text(size: float) -> str:
    """Return a number of bytes in kB or MB."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


def counted(number: int, thing: str) -> str:
    """Return `1 package`, `2 packages`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def listed(words: Sequence[str], most: int) -> str:
    """Return the first `most` words, separated by commas, and the number of the remaining words."""
    more = len(words) - most
    return ", ".join(words) if more <= 0 else f"{', '.join(words[:most])} and {more} more"


def wrapped(text: str, width: int, first: str = "", indent: str = "") -> list[str]:
    """Return a text as lines of at most this width. The first line begins with `first`, the others with `indent`.

    A path or command that is longer than a line stays whole, so that a user can copy it.
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
    """Return the normalized name of a Python package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def without_logins(text: str) -> str:
    """Return a text without the user names and passwords in its URLs."""
    return _LOGIN.sub("", text) if "://" in text else text


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is `folder` or below it. Compares only the texts. Returns False if `folder` is empty."""
    return bool(folder) and f"{path}/".startswith(f"{folder.rstrip('/')}/")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, with keys and values in their original order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups

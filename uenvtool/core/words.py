"""Sizes and lists in a sentence; names of Python packages; pairs by their first halves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def size_text(size: float) -> str:
    """Return a number of bytes as people read it."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


def listed(words: Sequence[str], most: int) -> str:
    """Return words in a line; of many the first ones, and how many there are more."""
    more = len(words) - most
    return ", ".join(words) if more <= 0 else f"{', '.join(words[:most])} and {more} more"


def canonical(name: str) -> str:
    """Return the name of a Python package as resolvers compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return each key with its values, both in the order in which they come first."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found

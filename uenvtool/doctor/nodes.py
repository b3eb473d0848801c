"""Conversion of node names and rank numbers to and from Slurm's notation, such as `nid[001-004,007]` and `0-3,7`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)
_BRACKETS = re.compile(r"([^\[\],]+)(?:\[([\d,-]+)\])?([^\[\],]*)")
MOST_NODES = 100_000
"""The maximum number of nodes to which a list is expanded, more than any machine has."""
MOST_DIGITS = 15
MOST_SHOWN = 1_000
"""The maximum number of characters of a printed list."""


def folded(names: Iterable[str]) -> str:
    """Return node names as one list, with a range for names that differ only in their last number."""
    by_form: dict[tuple[str, int], set[int]] = {}
    plain = set()
    for name in names:
        match = _NUMBERED.match(name)
        if match and len(match[2]) <= MOST_DIGITS:
            padded = len(match[2]) if match[2].startswith("0") or len(match[2]) > 1 else 1
            by_form.setdefault((match[1], padded), set()).add(int(match[2]))
        else:
            plain.add(name)
    parts = sorted(plain)
    for (stem, width), numbers in sorted(by_form.items()):
        text = ranges(numbers, width)
        parts.append(f"{stem}{text}" if len(numbers) == 1 else f"{stem}[{text}]")
    return ",".join(parts)


def ranges(numbers: Iterable[int], width: int = 1) -> str:
    """Return numbers as ranges, such as 0-3,7. Each number is padded with zeros to `width` digits."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join("-".join(f"{number:0{width}d}" for number in dict.fromkeys(run)) for run in runs)


def brief_nodes(names: Collection[str]) -> str:
    """Return node names as one list for printing, shortened to MOST_SHOWN characters."""
    return _brief(folded(names), len(names))


def brief_ranks(numbers: Collection[int]) -> str:
    """Return rank numbers as ranges for printing, shortened to MOST_SHOWN characters."""
    return _brief(ranges(numbers), len(numbers))


def _brief(text: str, count: int) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN].rpartition(',')[0]}, ... ({count:,} in all)"


def numbers_of(text: str) -> Iterator[int]:
    """Yield the numbers in ranges such as 0-3,7. Invalid parts are skipped."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(part) <= 2 * MOST_DIGITS:
            low, high = int(first), int(last or first)
            yield from range(low, min(high, low + MOST_NODES) + 1)


def expanded(text: str) -> Iterator[str]:
    """Yield the first MOST_NODES names in a Slurm list."""
    return islice(_names(text), MOST_NODES)


def _names(text: str) -> Iterator[str]:
    for match in _BRACKETS.finditer(text):
        stem, brackets, rest = match.groups()
        if not brackets:
            yield stem + rest
            continue
        for part in brackets.split(","):
            width = len(part.partition("-")[0])
            yield from (f"{stem}{number:0{width}d}{rest}" for number in numbers_of(part))

"""Finds many texts in bytes in one pass, wherever they lie, also one within another."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from uenvtool.knowledge.pattern import MOST_MEMORY

Search = Callable[[bytes], Iterable[tuple[int, int, int]]]
"""Returns which text was found and its place, as number, start and end: by their ends, the longest first of those."""


def search_for(texts: Sequence[bytes]) -> Search:
    """Return the search for some texts, no two of which are the same.

    ahocorasick_rs has a wheel for each version of Python, which a new version waits for: without it one pattern of
    RE2 gives the same answers, and takes longer.
    """
    try:
        return quick_search(texts)
    except ImportError:
        return pattern_search(texts)


def quick_search(texts: Sequence[bytes]) -> Search:
    """Return the search of ahocorasick_rs. Raises ImportError without it."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    automaton = BytesAhoCorasick(texts, implementation=Implementation.DFA)
    return lambda data: automaton.find_matches_as_indexes(data, overlapping=True)


def pattern_search(texts: Sequence[bytes]) -> Search:
    """Return the search of RE2: one pattern says where a text begins, a look there which ones do."""
    import re2

    shortest = min(map(len, texts), default=0)
    beginning: dict[bytes, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        beginning[text[:shortest]].append(number)
    shorter_first = map(re.escape, sorted(texts, key=len))
    starts = re2.compile(b"|".join(shorter_first) or rb"\b\B", max_mem=MOST_MEMORY)

    def search(data: bytes) -> list[tuple[int, int, int]]:
        found, match = [], starts.search(data)
        while match:
            start = match.start()
            for number in beginning[match[0][:shortest]]:
                if data.startswith(texts[number], start):
                    found.append((number, start, start + len(texts[number])))
            match = starts.search(data, start + 1)
        return sorted(found, key=lambda one: (one[2], one[1]))

    return search

"""Expands words and numbers in a batch script with the variables that have only one value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from uenvtool.check.parts import OUTER, CheckedFile
from uenvtool.core.words import grouped

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}?")
_ALL = re.compile(r"\$\{([A-Za-z_]\w*)(?:\[[@*]\])?\}|\$([A-Za-z_]\w*)")
_MOST_WORDS = 500
"""The number of words of a command that are expanded. A command that starts a training program has far fewer."""


class Values:
    """The variables of a script that have only one value.

    known: the numbers that Slurm will set in the job, by variable.
    """

    def __init__(self, source: CheckedFile) -> None:
        assigned = grouped((part.name, part.text) for part in source.of("variable"))
        self._by_name = {name: texts[0] for name, texts in assigned.items() if len(set(texts)) == 1}
        self.known: dict[str, int | None] = {}

    def number(self, text: str, depth: int = 0) -> int | None:
        """Return the number to which a text expands, or None if it is unknown."""
        text = text.strip("\"' ")
        if text.isdecimal():
            return int(text) if len(text) < 10 else None
        if text.startswith("$((") and text.endswith("))"):
            shares = map(str.strip, text[3:-2].split("*") if depth < 4 else [""])
            factors = [self.number(share if share[:1] in "$0123456789" else f"${share}", depth + 1) for share in shares]
            known = [factor for factor in factors if factor is not None]
            return math.prod(known) if len(known) == len(factors) else None
        name = _NAME.fullmatch(text.replace(OUTER, "$"))
        if name is None or depth > 4:
            return None
        if name[1] in self.known:
            return self.known[name[1]]
        value = self._by_name.get(name[1], name[2])
        return self.number(value, depth + 1) if value is not None else None

    def expanded(self, words: Sequence[str], depth: int = 0) -> tuple[str, ...]:
        """Return the words. The words of its value replace a word that consists of one variable."""
        expansion: list[str] = []
        for word in words[:_MOST_WORDS]:
            name = _ALL.fullmatch(word.replace(OUTER, "$")) if word[:1] in ("$", OUTER) else None
            value = self._by_name.get(name[1] or name[2]) if name else None
            if value is None or depth > 3:
                expansion.append(word)
            else:
                listed = value[1:-1] if value.startswith("(") and value.endswith(")") else value
                # an arithmetic or command substitution is one word
                shares = [listed] if listed.startswith(("$(", "`")) else listed.split()
                expansion += self.expanded([share.strip("\"'") for share in shares], depth + 1)
        return tuple(expansion[:_MOST_WORDS])

"""The variables of a batch script that have one value, and what words and numbers become with them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from uenvtool.check.parts import OUTER, CheckedFile
from uenvtool.core.words import grouped

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}?")
_ALL = re.compile(r"\$\{([A-Za-z_]\w*)(?:\[[@*]\])?\}|\$([A-Za-z_]\w*)")


class Values:
    """The variables of a script that have one value."""

    def __init__(self, source: CheckedFile) -> None:
        found = grouped((part.name, part.text) for part in source.of("variable"))
        self._one = {name: texts[0] for name, texts in found.items() if len(set(texts)) == 1}
        self.known: dict[str, int | None] = {}

    def number(self, text: str, depth: int = 0) -> int | None:
        """Return the number that a text stands for; None if it is not known."""
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
        value = self._one.get(name[1], name[2])
        return self.number(value, depth + 1) if value is not None else None

    def expanded(self, words: Sequence[str], depth: int = 0) -> tuple[str, ...]:
        """Return words, with each that is one variable replaced by the words of its value."""
        found: list[str] = []
        for word in words:
            name = _ALL.fullmatch(word.replace(OUTER, "$"))
            value = self._one.get(name[1] or name[2]) if name else None
            if value is None or depth > 3:
                found.append(word)
            else:
                listed = value[1:-1] if value.startswith("(") and value.endswith(")") else value
                shares = [listed] if listed.startswith("$(") else listed.split()  # a number or an output is one word
                found += self.expanded([share.strip("\"'") for share in shares], depth + 1)
        return tuple(found)

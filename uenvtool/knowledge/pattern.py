"""The patterns of knowledge, matched in linear time whatever the text: RE2, without anything that needs to go back."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MOST_CHARACTERS = 100_000
"""A longer text is cut: no line that a person reads is as long."""
MOST_MEMORY = 1 << 28
"""Bytes that one pattern may take. Where RE2's 8 MiB are too few it prints so, and goes on with a slower way."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression of RE2 (https://github.com/google/re2/wiki/Syntax), compiled when it is first used."""

    text: str

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in a text."""
        return self._matched("search", text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """Return the match of a whole text."""
        return self._matched("fullmatch", text)

    def finditer(self, text: str) -> list[re.Match[str]]:
        """Return all matches in a text."""
        return list(self.compiled.finditer(_readable(text)))

    @property
    def groups(self) -> frozenset[str]:
        """Return the names of its groups."""
        return frozenset(self.compiled.groupindex)

    @functools.cached_property
    def compiled(self) -> Any:
        """Return the compiled pattern. Raises re.error if it is none, or needs what takes more than linear time."""
        import re2

        re2.set_fallback_notification(re2.FALLBACK_EXCEPTION)
        return re2.compile(self.text, flags=re2.ASCII, max_mem=MOST_MEMORY)

    def _matched(self, method: str, text: str) -> re.Match[str] | None:
        compiled = getattr(self.compiled, method)
        try:
            found: re.Match[str] | None = compiled(text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS])
        except UnicodeEncodeError:
            found = compiled(_readable(text))
        return found


def any_of(texts: Iterable[str]) -> Pattern:
    """Return the pattern that is found where one of these is; of none, it never is."""
    return Pattern("|".join(f"(?:{text})" for text in texts) or r"\b\B")


def _readable(text: str) -> str:
    """Return a text with a question mark for each byte that is not UTF-8 (PEP 383): RE2 reads UTF-8."""
    return text[:MOST_CHARACTERS].encode("utf-8", "replace").decode()

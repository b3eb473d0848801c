"""The regular expressions of knowledge files. RE2 matches them in linear time for any text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MOST_CHARACTERS = 100_000
"""The maximum number of characters of a text that are searched. No line that a person reads is longer."""
MOST_MEMORY = 1 << 28
"""The maximum number of bytes of memory per pattern. With its default of 8 MiB, RE2 can run out of memory, print a
message about that, and search slowly."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression of RE2 (https://github.com/google/re2/wiki/Syntax), which is compiled on first use."""

    text: str

    def search(self, text: str) -> re.Match[str] | None:
        return self._matched("search", text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._matched("fullmatch", text)

    def may_match_line(self, text: str) -> bool:
        """Return False if the pattern matches none of the texts that `text` contains, separated by newlines."""
        return self._by_line.search(text.encode("utf-8", "replace").decode()) is not None

    def finditer(self, text: str) -> list[re.Match[str]]:
        return list(self.compiled.finditer(_readable(text)))

    @property
    def groups(self) -> frozenset[str]:
        return frozenset(self.compiled.groupindex)

    @functools.cached_property
    def compiled(self) -> Any:
        """Return the compiled pattern.

        Raises re.error if the text is not a regular expression or needs a feature that RE2 cannot match in linear time.
        """
        return _compiled(self.text)

    @functools.cached_property
    def _by_line(self) -> Any:
        return _compiled(f"(?m){self.text}")

    def _matched(self, method: str, text: str) -> re.Match[str] | None:
        compiled: Callable[[str], re.Match[str] | None] = getattr(self.compiled, method)
        try:
            return compiled(text[:MOST_CHARACTERS])
        except UnicodeEncodeError:
            return compiled(_readable(text))


def _compiled(text: str) -> Any:
    import re2

    re2.set_fallback_notification(re2.FALLBACK_EXCEPTION)
    return re2.compile(text, flags=re2.ASCII, max_mem=MOST_MEMORY)


def any_of(texts: Iterable[str]) -> Pattern:
    """Combine patterns into one that matches where any of them matches. Without patterns, it never matches."""
    return Pattern("|".join(f"(?:{text})" for text in texts) or r"\b\B")


def _readable(text: str) -> str:
    return text[:MOST_CHARACTERS].encode("utf-8", "replace").decode()  # RE2 only reads UTF-8; see PEP 383

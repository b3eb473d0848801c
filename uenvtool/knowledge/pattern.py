"""The patterns of knowledge: compiled here alone."""

from __future__ import annotations

import re

Pattern = re.Pattern[str]
PatternError = re.error


def compiled(text: str) -> Pattern:
    """Return the pattern that a text means. Raises PatternError if it means none."""
    return re.compile(text)

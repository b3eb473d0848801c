"""Looks at the end of logs in which nothing is known for a line that speaks of a failure: silence is no good news."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from uenvtool.core import files
from uenvtool.doctor.secrets import without_secrets

IGNORED = "Exception ignored in"
"""How Python begins what it says of a failure that it passes over, as in a destructor."""
TAIL_BYTES = 1 << 16
SHOWN = 200
_SPEAKS = re.compile(
    r"(?i)\b(?:\w*error|failed|failure|fatal|abort(?:ed|ing)?|unable to|could not|cannot|denied|refused|not enough|"
    r"timed out|crashed|core dumped|is dead|killed|terminated)\b(?!_)"
)
_HARMLESS = re.compile(
    r"(?i)\b(?:no|0|without|zero|any|if|when|on) (?:\w+ )?(?:error|failure|failed)|error\w*['\"]?\s*[=:]\s*[\d.]|"
    r"warn|info|debug|ignor|retry|deprecat|error_file|failures: *(?:0|none|<)"
)


def last_words(paths: Iterable[Path]) -> tuple[Path, str] | None:
    """Return the first line at the end of a log that speaks of a failure, and its file; None where there is none."""
    for path in paths:
        is_ignored = False
        for line in _end_of(path):
            is_ignored = is_ignored or IGNORED in line
            if _SPEAKS.search(line) and not _HARMLESS.search(line):
                if not is_ignored:
                    return path, without_secrets(" ".join(line.split()))[:SHOWN]
                is_ignored = False
    return None


def _end_of(path: Path) -> list[str]:
    """Return the last whole lines of a plain file; nothing of a pipe, whose end is gone."""
    if not path.is_file():
        return []
    with files.opened(path) as stream:
        start = max(stream.seek(0, 2) - TAIL_BYTES, 0)
        stream.seek(start)
        lines = stream.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    return lines[1:] if start else lines

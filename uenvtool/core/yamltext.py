"""Writes YAML in which each line can have its reason as a comment.

No YAML library can both write a comment after any line and start quickly. Tests read the output back with a YAML
library.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from uenvtool.core import quoting

WIDTH = 110

_PLAIN = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_/.$+][A-Za-z0-9_./$+=@~^%*-]*( [A-Za-z0-9_./$+=@~^%*-]+)*\Z")
_NOT_TEXT = re.compile(
    r"(true|false|yes|no|on|off|y|n|null|\.inf|\.nan|[-+]?\.?[0-9][0-9_.e+-]*|0x[0-9a-f]+|0o?[0-7]+)\Z", re.IGNORECASE
)
_SPECIAL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def scalar(text: str) -> str:
    """Return a YAML scalar that every reader reads as this text, also inside `[...]`."""
    if _PLAIN.match(text) and not _NOT_TEXT.match(text):
        return text
    if _SPECIAL.search(text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + _SPECIAL.sub(_escaped, escaped) + '"'
    return "'" + text.replace("'", "''") + "'"


def quoted(text: str) -> str:
    """Return a YAML scalar that is always in quotes, so that every reader reads 0 or PHB as text."""
    plain = scalar(text)
    return plain if plain[:1] in "'\"" else f"'{plain}'"


def flow(items: Iterable[str]) -> str:
    """Return a YAML list on one line."""
    return "[" + ", ".join(scalar(item) for item in items) + "]"


def comment(text: str, indent: int = 0) -> list[str]:
    """Return a text as wrapped comment lines. No character in the text can end the comment."""
    columns = WIDTH - indent - 2
    lines = textwrap.wrap(_words(text), columns, break_long_words=False, break_on_hyphens=False)
    return [" " * indent + "# " + line for line in lines]


def remark(text: str) -> str:
    """Return a text as an end-of-line comment, without wrapping. No character in the text can end the comment."""
    return f"  # {_words(text)}"


def with_comment(line: str, reason: str) -> list[str]:
    """Return a line with its reason after it if both fit on one line, or else above it."""
    if not reason:
        return [line]
    whole = line + remark(reason)
    if len(whole) <= WIDTH:
        return [whole]
    return [*comment(reason, len(line) - len(line.lstrip())), line]


def indented(lines: Sequence[str], by: int) -> list[str]:
    """Return indented lines; empty lines stay empty."""
    return [" " * by + line if line else line for line in lines]


def _words(text: str) -> str:
    return " ".join(quoting.comment(text).split())


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"

"""A text as one word, or one value, of another language: exactly that text, whatever is in it."""

from __future__ import annotations

import json


def sh(text: str) -> str:
    """One word of bash, zsh or any POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def fish(text: str) -> str:
    """One word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def csh(text: str) -> str:
    """One word of tcsh or csh.

    History is substituted within single quotes too, and a newline ends them: both take a backslash.
    """
    return "'" + text.replace("'", "'\\''").replace("!", "\\!").replace("\n", "\\\n") + "'"


def toml(text: str) -> str:
    """A basic string of TOML (https://toml.io/en/v1.0.0#string): JSON's escapes are TOML's but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

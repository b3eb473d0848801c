"""Quotes a text so that another language reads back exactly this text, or raises BadInput if it cannot."""

from __future__ import annotations

import json
import re
import shlex

from uenvtool.core.errors import BadInput

PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,+=@%-]+")
"""An argument that shells read unchanged without quotes."""
QUOTES = ("\\", "'")
"""The characters that end `$'...'` or start an escape in it."""


def comment(text: str) -> str:
    """Return a text on one line, for a comment in any language whose comments end with the line."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def sh(text: str) -> str:
    """Return an argument in single quotes, for bash, zsh or any POSIX shell."""
    return f"'{sh_inside(text)}'"


def sh_inside(text: str) -> str:
    """Return a text for a place between single quotes in a shell template."""
    return text.replace("'", "'\\''")


def sh_word(text: str) -> str:
    """Return an argument for bash, zsh or any POSIX shell, in single quotes only if it needs them."""
    return text if PLAIN_WORD.fullmatch(text) else sh(text)


def bash_line(text: str) -> str:
    """Return an argument for bash on one line, even if it contains line breaks."""
    if text.isprintable():
        return shlex.quote(text)
    escapes = {char: "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")) for char in text}
    return f"$'{''.join(char if char.isprintable() and char not in QUOTES else escapes[char] for char in text)}'"


def sh_again(command: str) -> str:
    """Quote each argument of an untrusted command for a shell. Return "" if the command cannot be split."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return " ".join(map(bash_line, words))


def toml(text: str) -> str:
    """Return a TOML basic string (https://toml.io/en/v1.0.0#string); its escapes are those of JSON, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def edf(name: str, text: str) -> str:
    """Return a variable's value for an EDF (TOML). Raises BadInput if the Container Engine would expand it."""
    if "${" in text:
        hint = "use a value without ${"
        raise BadInput(f"the Container Engine would expand the value of {name}: {text!r}", hint=hint)
    return toml(text)


def dotenv(name: str, text: str) -> str:
    """Return a variable's value for a dotenv file, in single quotes.

    Raises BadInput if readers of dotenv files disagree about the value. In single quotes, python-dotenv interprets
    `\\'` and `${...}`, and shells do not.
    """
    if "'" in text or "\\" in text or "${" in text or "\r" in text:
        raise BadInput(f"a dotenv file cannot contain the value of {name}: {text!r}", hint="use --shell bash")
    return f"'{text}'"


def docker(name: str, text: str) -> str:
    """Return a variable's value, quoted for a Dockerfile's ENV line. Raises BadInput if it contains a line break."""
    if "\n" in text or "\r" in text:
        raise BadInput(f"a Dockerfile's ENV cannot contain the value of {name}: {text!r}", hint="set it in a script")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def html(text: str) -> str:
    """Escape a text for an HTML or SVG element or for an attribute in double quotes."""
    return comment(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def github(text: str, *, is_message: bool = False) -> str:
    """Escape a text for a workflow command of GitHub Actions: its message, or else one of its properties.

    The escapes are those of actions/toolkit, packages/core/src/command.ts.
    """
    for character in "%\r\n" if is_message else "%\r\n:,":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def sbatch(name: str, text: str) -> str:
    """Return an option's value for an #SBATCH line, which sbatch splits like a shell but does not expand.

    Raises BadInput if the value contains a line break or another control character, which would end the line.
    """
    if not text.isprintable():
        raise BadInput(f"an #SBATCH line cannot contain the value of {name}: {text!r}", hint="write it on one line")
    if re.fullmatch(r"[^\s\"'\\#]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

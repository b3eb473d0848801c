"""A text as one word, or one value, of another language: exactly that text, whatever is in it.

A language that cannot hold a text refuses it with BadInput.
"""

from __future__ import annotations

import json
import re
import shlex

from uenvtool.core.errors import BadInput

PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,+=@%-]+")
"""A word that shells take as it is."""
QUOTES = ("\\", "'")
"""What ends a word in `$'...'`, or begins a code."""


def comment(text: str) -> str:
    """Return a text within a comment of any language that ends it at the line's end: on one line, whatever is in it."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


def sh(text: str) -> str:
    """Return one word of bash, zsh or any POSIX shell."""
    return f"'{sh_inside(text)}'"


def sh_inside(text: str) -> str:
    """Return a text that stands between the single quotes of a template of these shells."""
    return text.replace("'", "'\\''")


def sh_word(text: str) -> str:
    """Return the same; in quotes only if the shell would not take it as it is."""
    return text if PLAIN_WORD.fullmatch(text) else sh(text)


def bash_line(text: str) -> str:
    """Return one word of bash that stands on one line, whatever is in it."""
    if text.isprintable():
        return shlex.quote(text)
    coded = {one: "".join(f"\\x{byte:02x}" for byte in one.encode("utf-8", "surrogateescape")) for one in text}
    return f"$'{''.join(one if one.isprintable() and one not in QUOTES else coded[one] for one in text)}'"


def sh_again(command: str) -> str:
    """Return a command of plain words that somebody else wrote, so that a shell expands and runs nothing of it.

    Empty for what is no line of words.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    return " ".join(map(bash_line, words))


def toml(text: str) -> str:
    """Return a basic string of TOML (https://toml.io/en/v1.0.0#string): JSON's escapes are TOML's but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def edf(name: str, text: str) -> str:
    """Return a variable's value in an EDF, which is TOML. Raises BadInput if the Container Engine would expand it."""
    if "${" in text:
        raise BadInput(f"the Container Engine would expand the value of {name}: {text!r}", hint="take another path")
    return toml(text)


def dotenv(name: str, text: str) -> str:
    """Return the value of a variable in a dotenv file, in single quotes.

    Raises BadInput for what its readers understand in different ways: python-dotenv takes `\\'` and `${...}`
    within single quotes, shells do not.
    """
    if "'" in text or "\\" in text or "${" in text or "\r" in text:
        raise BadInput(f"a dotenv file cannot hold the value of {name}: {text!r}", hint="take --shell bash")
    return f"'{text}'"


def docker(name: str, text: str) -> str:
    """Return a variable's value in an ENV line of a Dockerfile. Raises BadInput for a newline, which none can hold."""
    if "\n" in text or "\r" in text:
        raise BadInput(f"a Dockerfile's ENV cannot hold the value of {name}: {text!r}", hint="set it in a script")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def html(text: str) -> str:
    """Return the text of an element of SVG, or of an attribute in double quotes: HTML's escapes are XML's."""
    return comment(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def sbatch(name: str, text: str) -> str:
    """Return the value of an option in an #SBATCH line, which sbatch splits as a shell does, without expanding it.

    Raises BadInput for a line break or another control character, which would end the line.
    """
    if not text.isprintable():
        raise BadInput(f"an #SBATCH line cannot hold the value of {name}: {text!r}", hint="write it on one line")
    if re.fullmatch(r"[^\s\"'\\#]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

"""The pieces that scripts are put together from: each a file that is valid in its own language."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from uenvtool.core import rendezvous
from uenvtool.core.filling import filled

FOLDER = Path(__file__).parent / "fragments"
LONG = 118
"""Characters in a line of a program that is a word of a script."""
_FOR_THE_LINTER = "# shellcheck "


@cache
def fragment(extension: str, name: str) -> str:
    """The text of a fragment, without the line that is for its linter."""
    text = (FOLDER / extension / f"{name}.{extension}").read_text(encoding="utf-8")
    first, _, rest = text.partition("\n")
    return rest if first.startswith(_FOR_THE_LINTER) else text


def block(extension: str, name: str, **values: str) -> str:
    """A fragment with its marks filled; a mark alone on its line takes lines, each as far in as the mark.

    Raises ValueError for a mark without a value and a value without a mark.
    """
    text = fragment(extension, name)
    for mark, value in values.items():
        for space in re.findall(rf"^( +)@{mark}@$", text, re.MULTILINE):
            text = text.replace(f"{space}@{mark}@\n", _indented(value, space) + "\n")
    return filled(text, **{mark: value for mark, value in values.items() if f"@{mark}@" in text})


@cache
def rank_program() -> str:
    """The program of sh that gives a task of srun its rank, in a few long lines."""
    lines: list[str] = []
    text = (FOLDER / "rank.sh").read_text(encoding="utf-8")
    for line in filled(text, RANK=rendezvous.RANK_OF_TASK, PORT=rendezvous.PORT_OF_STEP).splitlines():
        if len(lines) > 1 and len(lines[-1]) + len(line) < LONG:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _indented(text: str, space: str) -> str:
    return "\n".join(space + line if line else line for line in text.rstrip("\n").split("\n"))

"""Fills the template of a shell: a real script of that shell, with a few marks.

`#@NAME` stands for lines, `@NAME@` for a word, and what is between `#@if NAME`, `#@else` and `#@end`
is taken only where NAME is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "templates"

_MARK = re.compile(r"(\s*)#@(\w+)(?: (\w+))?\Z")


def fill(name: str, wanted: Collection[str], blocks: Mapping[str, Sequence[str]], words: Mapping[str, str]) -> str:
    """The text of a template with its marks replaced."""
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    filled = list(_filled(_taken(lines, wanted), blocks, words))
    return "\n".join(filled) + "\n"


def _taken(lines: Sequence[str], wanted: Collection[str]) -> Iterator[str]:
    taking = True
    for line in lines:
        mark = _MARK.match(line)
        kind = mark[2] if mark else ""
        if mark and kind == "if":
            taking = mark[3] in wanted
        elif kind == "else":
            taking = not taking
        elif kind == "end":
            taking = True
        elif taking:
            yield line


def _filled(lines: Iterator[str], blocks: Mapping[str, Sequence[str]], words: Mapping[str, str]) -> Iterator[str]:
    pattern = re.compile("|".join(f"@{re.escape(word)}@" for word in words))
    for line in lines:
        mark = _MARK.match(line)
        if mark:
            yield from (mark[1] + part if part else part for part in blocks[mark[2]])
        else:
            yield pattern.sub(lambda found: words[found[0].strip("@")], line)

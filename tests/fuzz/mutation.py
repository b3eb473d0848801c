"""Damaged versions of good input."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

SCALARS = ["", "null", "true", "-1", "1e999", "[]", "{}", "'", '"', "a: b", "&a *a", "!!python/object:os.system x", "~"]
SCALARS += ["9" * 5000, "x" * 5000, "${HOME}", "$(touch ran)", "../..", "/", "\\n", "\t", "\u202e", "| x", "- - -"]
WORDS = [*"'\"{}[]:#|>%@`\0\r\ufeff", "&a", "*a", "\x1b[31m", "<<: *x"]
VALUES = [
    None,
    True,
    -1,
    0,
    1.5,
    "",
    "x",
    "\n",
    "../x",
    "/abs",
    [],
    [[]],
    {},
    {"a": None},
    10**400,
    "\ud800",
    ["x"] * 3,
]


def damaged_lines(text: str, count: int, seed: int) -> Iterator[str]:
    """A YAML or line-based file with one to three lines lost, doubled, moved in, filled with another value, or cut."""
    chance = random.Random(seed)
    for _ in range(count):
        lines = text.splitlines()
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(lines) or 1)
            line = lines[at] if lines else ""
            key, colon, _ = line.partition(":")
            change = chance.randrange(7)
            if change == 0:
                lines[at : at + 1] = []
            elif change == 1:
                lines[at : at + 1] = [line, line]
            elif change == 2:
                lines[at : at + 1] = [" " * chance.randrange(9) + line.strip()]
            elif change == 3 and colon:
                lines[at : at + 1] = [f"{key}: {chance.choice(SCALARS)}"]
            elif change == 4:
                where = chance.randrange(len(line) + 1)
                lines[at : at + 1] = [line[:where] + chance.choice(WORDS) + line[where:]]
            elif change == 5:
                lines[at : at + 1] = [line, f"{chance.choice(SCALARS)}: {chance.choice(SCALARS)}"]
            else:
                lines = lines[: chance.randrange(len(lines) + 1)]
        yield "\n".join(lines) + "\n"


def damaged_json(text: str, count: int, seed: int) -> Iterator[str]:
    """JSON with a value of another kind in one place, or one that is not JSON any more."""
    chance = random.Random(seed)
    for number in range(count):
        data = json.loads(text)
        if number % 5 == 0:
            where = chance.randrange(len(text))
            yield text[:where] + chance.choice(WORDS) + text[where + chance.randrange(20) :]
            continue
        holder, key = chance.choice(list(_places(data)))
        if chance.randrange(4):
            holder[key] = chance.choice(VALUES)
        else:
            del holder[key]
        yield json.dumps(data)


def _places(data: object) -> Iterator[tuple[dict[str, object] | list[object], str | int]]:
    """Every value below, as what holds it and where."""
    items: list[tuple[str | int, object]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    for key, value in items:
        yield data, key  # type: ignore[misc]
        yield from _places(value)

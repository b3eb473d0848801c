"""Takes out of a text what only its owner may know: tokens, keys, passwords; secrets.yaml says what they look like."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core.filling import filled_where_marked
from uenvtool.knowledge.pattern import MOST_CHARACTERS, Pattern, any_of
from uenvtool.knowledge.yamltree import read

HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Form:
    """How a secret stands in a text. unless: what is no secret there, as a whole."""

    pattern: Pattern
    unless: Pattern

    def places(self, line: str) -> Iterator[tuple[int, int]]:
        """Yield where the secrets of this form begin and end: between the groups of the pattern."""
        groups = self.pattern.compiled.groups
        for found in self.pattern.finditer(line):
            start = found.end(1) if groups else found.start()
            end = found.start(2) if groups > 1 else found.end()
            if not self.unless.fullmatch(line[start:end].strip("\\\"'")):
                yield start, end


@functools.cache
def table() -> dict[str, Any]:
    """Return secrets.yaml: its tokens, names and forms."""
    path = Path(__file__).with_suffix(".yaml")
    found: dict[str, Any] = read(path, path.name).plain()
    return found


def without_secrets(line: str, start: int = 0) -> str:
    """Return a text with each secret that shows itself by its form or its name replaced; a very long one is cut.

    start: where the part begins that is wanted; what is before it may be what tells a secret in it.
    """
    line, at, parts = line[:MOST_CHARACTERS], start, [""]
    for begin, end in sorted(place for form in _forms() for place in form.places(line) if place[1] > start):
        if begin > at or not parts[-1]:  # else it goes on from the last one
            parts += [line[at:begin], HIDDEN]
        at = max(at, end)
    return "".join((*parts, line[at:]))


def has_secret(line: str) -> bool:
    """Tell if a text has what looks like a secret, such as `NAME=VALUE` by the name or the value."""
    return any(any(form.places(line)) for form in _forms())


@functools.cache
def tokens() -> Form:
    """Return the form of the tokens that are known by their start."""
    pattern = any_of(
        rf"\b{re.escape(start)}{body}"
        for body, issuers in table()["tokens"].items()
        for starts in issuers.values()
        for start in starts
    )
    return Form(pattern, Pattern(""))


@functools.cache
def _forms() -> Sequence[Form]:
    forms = [
        Form(Pattern(filled_where_marked(row["form"], **table()["names"])), Pattern(row.get("unless", "")))
        for row in table()["forms"]
    ]
    return [*forms, tokens()]

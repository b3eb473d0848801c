"""Removes secrets such as tokens, keys and passwords from texts. secrets.yaml describes their forms."""

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
    """A secret format to redact. unless: A pattern that matches whole strings that are not secrets."""

    pattern: Pattern
    unless: Pattern

    def places(self, line: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each secret in a line. A secret is between the groups of the pattern."""
        groups = self.pattern.compiled.groups
        for match in self.pattern.finditer(line):
            start = match.end(1) if groups else match.start()
            end = match.start(2) if groups > 1 else match.end()
            if not self.unless.fullmatch(line[start:end].strip("\\\"'")):
                yield start, end


@functools.cache
def table() -> dict[str, Any]:
    """Return the content of secrets.yaml: tokens, names and forms."""
    path = Path(__file__).with_suffix(".yaml")
    content: dict[str, Any] = read(path, path.name).plain()
    return content


def without_secrets(line: str, start: int = 0) -> str:
    """Return a text in which each secret is replaced. The text is cut after MOST_CHARACTERS characters.

    start: The index at which the returned part begins. The text before it can show that the part contains a secret.
    """
    line, at, parts = line[:MOST_CHARACTERS], start, [""]
    for begin, end in sorted(place for form in _forms() for place in form.places(line) if place[1] > start):
        if begin > at or not parts[-1]:  # otherwise this secret continues the previous one
            parts += [line[at:begin], HIDDEN]
        at = max(at, end)
    return "".join((*parts, line[at:]))


def has_secret(line: str) -> bool:
    """Return whether a text contains a secret, such as `NAME=VALUE` with a secret name or value."""
    return any(any(form.places(line)) for form in _forms())


@functools.cache
def tokens() -> Form:
    """Return the form of tokens that are recognised by their prefix."""
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

"""Removes secrets such as tokens, keys and passwords from texts. secrets.yaml describes their forms."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from uenvtool.core.filling import filled_where_marked
from uenvtool.core.words import without_logins
from uenvtool.knowledge.pattern import MOST_CHARACTERS, Pattern, any_of

T = TypeVar("T")

HIDDEN = "(hidden)"
_PIECE = re.compile(rf"(?s:.{{1,{MOST_CHARACTERS}}}(?=\n|\Z)|.{{1,{MOST_CHARACTERS}}})")
"""A part of a text that can be searched at once. It ends at the end of a line if it can."""
NOT_WRITTEN = (
    "the written files do not contain the users, passwords and tokens of your URLs; "
    "store them in ~/.netrc or git's credential helper, or use ssh"
)
"""The warning about a value that `storable` changed."""


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
    import yaml

    content: dict[str, Any] = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), Loader=yaml.CSafeLoader)
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


def storable(value: T) -> T:
    """Return a value without secrets. Every value of the user that is written to disk again passes this function.

    URLs have no user and no password, as in PEP 610, and other secrets are hidden. The value is a text, a dataclass, or
    a mapping, list or tuple of values; values of other types are returned unchanged.
    """
    stored: Any = value
    if isinstance(value, str):
        stored = "".join(map(without_secrets, _PIECE.findall(without_logins(value))))
    elif isinstance(value, Mapping):
        stored = {name: storable(item) for name, item in value.items()}
    elif type(value) in (list, tuple):  # a named tuple, such as Position, has no values of the user
        stored = type(stored)(map(storable, stored))
    elif is_dataclass(value) and not isinstance(value, type):
        items = {each.name: storable(getattr(value, each.name)) for each in fields(value) if each.init}
        stored = replace(value, **items)
    return stored if stored != value else value


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
    def pattern(text: str) -> Pattern:
        return Pattern(filled_where_marked(text, **table()["names"]))

    return [*(Form(pattern(row["form"]), pattern(row.get("unless", ""))) for row in table()["forms"]), tokens()]

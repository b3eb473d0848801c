"""Conditions over facts, as the knowledge files write them behind `when`.

    fabric == slingshot and nccl >= 2.27 and not ce

A term compares a fact (`==`, `!=`, `<`, `<=`, `>`, `>=`; versions as Spack orders them), asks
whether one is in a list (`uarch in gh200|a100`), or whether it is there at all (`ce`, `not ce`).
Terms are joined by `and`. What cannot be known here is unknown: neither true nor false.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from uenvtool.core.words import grouped
from uenvtool.knowledge.version import Version

_COMPARE = re.compile(r"([A-Za-z][\w.-]*)\s*(==|!=|<=|>=|<|>)\s*([\w.:/^-]+)\Z")
_MEMBER = re.compile(r"([A-Za-z][\w.-]*)\s+in\s+([\w.-]+(?:\s*\|\s*[\w.-]+)*)\Z")
_PRESENT = re.compile(r"(not\s+)?([A-Za-z][\w.-]*)\Z")
_ORDER: dict[str, Callable[[Version, Version], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Facts = Mapping[str, str | None]
"""What is known: a fact's name to its value; None says that it is known to be absent, an empty text that
it is there in a version that is not known."""


class ConditionSyntaxError(ValueError):
    """Text that is not a condition."""


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison: `values` has one value, several for `in`, none for presence."""

    fact: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("present", "absent"):
            return self.fact if self.operator == "present" else f"not {self.fact}"
        return f"{self.fact} {self.operator} {'|'.join(self.values)}"

    def holds(self, facts: Facts) -> bool | None:
        """Tell if the term is true; None if the fact is not known."""
        if self.fact not in facts:
            return None
        value = facts[self.fact]
        if self.operator in ("present", "absent"):
            return (value is not None) == (self.operator == "present")
        if value is None:
            return self.operator == "!="
        if value == "":
            return None
        if self.operator in _ORDER:
            return _ORDER[self.operator](Version(value), Version(self.values[0]))
        return (value in self.values) != (self.operator == "!=")


@dataclass(frozen=True, slots=True)
class Condition:
    """Terms that must all hold; no term at all always holds."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def holds(self, facts: Facts) -> bool | None:
        """Tell if it holds; None if that depends on a fact that is not known."""
        answers = [term.holds(facts) for term in self.terms]
        if any(answer is False for answer in answers):
            return False
        return None if any(answer is None for answer in answers) else True

    def left(self, facts: Facts) -> tuple[Term, ...]:
        """Return the terms that depend on facts that are not known."""
        return tuple(term for term in self.terms if term.holds(facts) is None)


ALWAYS = Condition()


@functools.cache  # many settings share their conditions
def can_hold_together(one: Condition, other: Condition) -> bool:
    """Tell if some facts make both conditions true.

    Each fact is tried at the values of a term that takes no others; else absent, at every value that a term names,
    and below, above and beside them: no term can tell other values apart.
    """
    for fact, about in grouped((term.fact, term) for term in (*one.terms, *other.terms)).items():
        if len(set(map(id, about))) == 1:  # a term by itself can hold; terms of one text are one
            continue
        named = [value for term in about for value in term.values]
        tried: tuple[str | None, ...] = (None, "0", "99999999", *named, *(f"{value}.1" for value in named))
        tried = next((term.values for term in about if term.operator in ("==", "in")), tried)
        if not any(all(term.holds({fact: value}) for term in about) for value in tried):
            return False
    return True


@functools.cache  # many settings share their conditions
def parse_condition(text: str) -> Condition:
    """Return the condition that a text means. Raises ConditionSyntaxError if it means none."""
    terms = tuple(_term(part.strip()) for part in re.split(r"\s+and\s+", text.strip()))
    return Condition(" ".join(text.split()), terms)


@functools.cache
def _term(text: str) -> Term:
    if match := _COMPARE.match(text):
        return Term(match[1], match[2], (match[3],))
    if match := _MEMBER.match(text):
        return Term(match[1], "in", tuple(value.strip() for value in match[2].split("|")))
    if match := _PRESENT.match(text):
        return Term(match[2], "absent" if match[1] else "present")
    raise ConditionSyntaxError(f"{text!r} is not a condition")

"""Conditions over facts, as knowledge files contain them under `when`.

    fabric == slingshot and nccl >= 2.27 and not ce

A term compares a fact with a value (`==`, `!=`, `<`, `<=`, `>`, `>=`), where versions are ordered as in Spack. It can
also test whether the fact is in a list (`uarch in gh200|a100`) or whether the fact is present (`ce`, `not ce`). `and`
joins terms. A term over a fact that is not known is undecided: neither true nor false.
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
ORDER: dict[str, Callable[[Version, Version], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Facts = Mapping[str, str | None]
"""The known facts, by name. None means that the fact is known to be absent. An empty string means that the software is
present in an unknown version."""


class ConditionSyntaxError(ValueError):
    """The error for a text that is not a valid condition."""


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison. `values` contains one value, several values for `in`, and none for a test of presence."""

    fact: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("present", "absent"):
            return self.fact if self.operator == "present" else f"not {self.fact}"
        return f"{self.fact} {self.operator} {'|'.join(self.values)}"

    def holds(self, facts: Facts) -> bool | None:
        """Return whether the term is true, or None if the fact is not known."""
        if self.fact not in facts:
            return None
        value = facts[self.fact]
        if self.operator in ("present", "absent"):
            return (value is not None) == (self.operator == "present")
        if value is None:
            return self.operator == "!="
        if value == "":
            return None
        if self.operator in ORDER:
            return ORDER[self.operator](Version(value), Version(self.values[0]))
        return (value in self.values) != (self.operator == "!=")


@dataclass(frozen=True, slots=True)
class Condition:
    """Terms that must all be true. A condition without terms is always true."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def holds(self, facts: Facts) -> bool | None:
        """Return whether the condition is true, or None if an unknown fact decides it."""
        answers = [term.holds(facts) for term in self.terms]
        if any(answer is False for answer in answers):
            return False
        return None if any(answer is None for answer in answers) else True

    def left(self, facts: Facts) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.holds(facts) is None)


ALWAYS = Condition()


@functools.cache  # many settings share their conditions
def can_hold_together(first: Condition, second: Condition) -> bool:
    """Return whether some facts make both conditions true.

    If a term allows only certain values of a fact, the function tries these values. Otherwise it tries an absent fact,
    each value in a term, and values below, above and next to these. No term can distinguish other values.
    """
    for fact, terms in grouped((term.fact, term) for term in (*first.terms, *second.terms)).items():
        if len(set(map(id, terms))) == 1:  # a single term can always hold, and equal terms are one cached object
            continue
        values = [value for term in terms for value in term.values]
        candidates: tuple[str | None, ...] = (None, "0", "99999999", *values, *(f"{value}.1" for value in values))
        candidates = next((term.values for term in terms if term.operator in ("==", "in")), candidates)
        if not any(all(term.holds({fact: value}) for term in terms) for value in candidates):
            return False
    return True


@functools.cache  # many settings share their conditions
def parse_condition(text: str) -> Condition:
    """Return the condition that a text contains. Raises ConditionSyntaxError if the text is not a condition."""
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
    raise ConditionSyntaxError(f"{text!r} is not a valid condition")

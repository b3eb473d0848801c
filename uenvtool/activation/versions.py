"""A version as one number that every shell can compare: 2026 of 2.26."""

from __future__ import annotations

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.condition import Term

STEP = 1000
COMPARE = {">=": "-ge", "<": "-lt", ">": "-gt", "<=": "-le"}
"""The comparisons as `test` knows them."""
LOWEST = 1000
"""A smaller number is no version: 1 of a library that does not show it, 0 of none."""


def number(term: Term) -> int:
    """The number of the version that a term compares with.

    Raises BadInput if the term does not name two parts: scripts tell versions apart by two.
    """
    parts = term.values[0].split(".")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise BadInput(
            f"{term.fact} {term.operator} {term.values[0]}: scripts compare MAJOR.MINOR",
            hint="write two numbers, for example nccl >= 2.27",
        )
    return int(parts[0]) * STEP + int(parts[1])


def unseen_needs_care(term: Term, counts_unseen: bool) -> bool:
    """Tell if a version that is not seen has to be asked for beside the comparison."""
    return counts_unseen != term.operator.startswith("<")

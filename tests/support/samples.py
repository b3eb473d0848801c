"""Combinations of cases. A normal run tests a few of them, and the nightly run tests all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def sampled(values: Iterable[Any], keep: int = 1) -> list[ParameterSet]:
    """Return parameters, of which all except the first `keep` are nightly. A tuple is one case."""
    cases = (value if isinstance(value, tuple) else (value,) for value in values)
    return [
        pytest.param(*case, marks=() if number < keep else pytest.mark.nightly) for number, case in enumerate(cases)
    ]


def slow(*values: Any) -> ParameterSet:
    """Return the parameters of a case that only --slow runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def pairwise(rows: Sequence[Any], columns: Sequence[Any], each: int = 2) -> list[ParameterSet]:
    """Return all combinations. Each row has `each` columns in a normal run, in turn, and the rest are nightly."""
    taken = {(row, (row * each + step) % len(columns)) for row in range(len(rows)) for step in range(each)}
    return [
        pytest.param(rows[row], columns[column], marks=() if (row, column) in taken else pytest.mark.nightly)
        for row in range(len(rows))
        for column in range(len(columns))
    ]

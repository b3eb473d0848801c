"""Products of cases, of which a run takes a few and the nightly run all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def sampled(values: Iterable[Any], keep: int = 1) -> list[ParameterSet]:
    """Parameters of which all but the first `keep` are marked `nightly`; a tuple has those of one case."""
    cases = (value if isinstance(value, tuple) else (value,) for value in values)
    return [
        pytest.param(*case, marks=() if number < keep else pytest.mark.nightly) for number, case in enumerate(cases)
    ]


def slow(*values: Any) -> ParameterSet:
    """The parameters of a case that --slow runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def pairwise(rows: Sequence[Any], columns: Sequence[Any], each: int = 2) -> list[ParameterSet]:
    """Parameters of a product: each row with so many columns in turn, so that every one comes, the rest at night."""
    taken = {(row, (row * each + step) % len(columns)) for row in range(len(rows)) for step in range(each)}
    return [
        pytest.param(rows[row], columns[column], marks=() if (row, column) in taken else pytest.mark.nightly)
        for row in range(len(rows))
        for column in range(len(columns))
    ]

"""Products of which a run takes a sample, and a run with `--slow` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def sampled(values: Iterable[Any], keep: int = 1) -> list[ParameterSet]:
    """Parameters of which all but the first `keep` are marked `slow`."""
    found = [value if isinstance(value, ParameterSet) else pytest.param(value) for value in values]
    return [*found[:keep], *(value._replace(marks=(*value.marks, pytest.mark.slow)) for value in found[keep:])]

"""What a lock and Spack's database say of dependencies."""

from __future__ import annotations

from typing import Any

import pytest

from uenvtool.knowledge.lock import is_build_only


@pytest.mark.parametrize(
    ("edge", "build_only"),
    [
        ({"parameters": {"deptypes": ["build"], "virtuals": ["c"]}}, True),
        ({"parameters": {"deptypes": ["build", "link"]}}, False),
        ({"parameters": {"deptypes": ["run"]}}, False),
        ({"type": ["build", "link"]}, False),  # of a Spack before 0.21, in images of 2023: nothing is left out of them
    ],
)
def test_what_is_needed_only_while_another_is_built(edge: dict[str, Any], build_only: bool) -> None:
    assert is_build_only({"name": "zlib", "hash": "a", **edge}) is build_only

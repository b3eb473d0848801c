"""What is committed beside what its inputs give."""

from __future__ import annotations

from pathlib import Path

import pytest

from uenvtool.core import drift
from uenvtool.core.errors import AnswerIsNo


def check(folder: Path, **more: object) -> str:
    with pytest.raises(AnswerIsNo) as found:
        drift.check(folder, {"a": "one\ntwo\n", "b/c": "three\n"}, again="make it", **more)  # type: ignore[arg-type]
    return str(found.value)


def test_the_same_bytes_are_no_drift(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")

    drift.check(tmp_path, {"a": "one\n"}, again="make it")


def test_a_drift_is_a_diff_with_what_makes_it_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\nzwei")

    said = check(tmp_path, left_over=["old"], remarks=["the lock is old"])

    assert "-zwei\n" in said
    assert f"--- {tmp_path}/a (as it is)\n" in said
    assert "+two\n" in said
    assert f"--- /dev/null\n+++ {tmp_path}/b/c (from its inputs)\n" in said
    assert "the lock is old\n" in said
    assert f"{tmp_path}/old is left over" in said
    assert said.endswith("hint: make it")


@pytest.mark.parametrize("content", [b"one\ntwo", b"one\r\ntwo\r\n", b"\xff", b""])
def test_any_other_bytes_are_a_drift(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)

    assert f"{tmp_path}/a" in check(tmp_path)

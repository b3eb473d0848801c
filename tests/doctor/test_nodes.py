"""Lists of nodes and ranks, folded and taken apart as Slurm does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.doctor.finding import Finding
from uenvtool.doctor.nodes import expanded, folded, numbers_of, ranges
from uenvtool.knowledge.finding import load_findings


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["nid001", "nid002", "nid004"], "nid[001-002,004]"),
        (["nid001"], "nid001"),
        (["n1", "n10", "n2"], "n[1-2],n10"),
        (["login", "n1"], "login,n1"),
        (["a-1", "b-1", "a-2"], "a-[1-2],b-1"),
        ([], ""),
    ],
)
def test_names_are_folded(names: list[str], text: str) -> None:
    assert folded(names) == text
    assert sorted(expanded(text)) == sorted(names)


def test_slurms_own_lists_are_taken_apart() -> None:
    assert list(expanded("nid[001-003,007],login1")) == ["nid001", "nid002", "nid003", "nid007", "login1"]


@given(st.sets(st.integers(0, 20_000)))
def test_ranges_keep_every_number(numbers: set[int]) -> None:
    assert set(numbers_of(ranges(numbers))) == numbers


@given(st.sets(st.from_regex(r"[a-z]{1,4}-?[0-9]{0,6}", fullmatch=True), max_size=30))
def test_folding_loses_no_name(names: set[str]) -> None:
    assert set(expanded(folded(names))) == names


@given(st.text())
def test_any_text_is_taken_apart_without_an_error(text: str) -> None:
    expanded(text)
    list(numbers_of(text))


def test_rank_is_shown_next_to_a_detail_with_a_similar_rank() -> None:
    known = load_findings().findings["rank-behind"]

    assert Finding(known=known, detail="waited for rank 12", ranks=frozenset({1})).where == "on rank 1"
    assert Finding(known=known, detail="waited for rank 1", ranks=frozenset({1})).where == ""

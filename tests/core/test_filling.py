"""Filling the marks of a script: one pass, and nothing that is wrong is left out in silence."""

from __future__ import annotations

import pytest

from uenvtool.core.filling import filled


def test_each_mark_becomes_its_value() -> None:
    assert filled("a=@A@ b=@B_2@ a=@A@", A="1", B_2="2") == "a=1 b=2 a=1"


def test_a_value_that_looks_like_a_mark_is_not_filled_again() -> None:
    assert filled("base=@BASE@ said=@MISSING@", BASE="'/a/@MISSING@'", MISSING="'gone'") == (
        "base='/a/@MISSING@' said='gone'"
    )


def test_a_backslash_in_a_value_is_data() -> None:
    assert filled("@A@", A=r"\1\g<0>\n") == r"\1\g<0>\n"


def test_what_only_resembles_a_mark_stays() -> None:
    assert filled("user@host ${a[@]} $@ @x@ @A@", A="1") == "user@host ${a[@]} $@ @x@ 1"


def test_a_mark_without_a_value_is_refused() -> None:
    with pytest.raises(ValueError, match="@MISPELT@ has no value"):
        filled("@A@ @MISPELT@", A="1")


def test_a_value_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no mark @B@"):
        filled("@A@", A="1", B="2")

"""Test filling the placeholders of a script in one pass, with an error for every wrong placeholder."""

from __future__ import annotations

import pytest

from uenvtool.core.filling import filled


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a=@A@ b=@B_2@ a=@A@", {"A": "1", "B_2": "2"}, "a=1 b=2 a=1"),
        ("base=@B@ said=@M@", {"B": "'/a/@M@'", "M": "'gone'"}, "base='/a/@M@' said='gone'"),  # is not filled again
        ("@A@", {"A": r"\1\g<0>\n"}, r"\1\g<0>\n"),
        ("user@host ${a[@]} $@ @x@ @A@", {"A": "1"}, "user@host ${a[@]} $@ @x@ 1"),
    ],
)
def test_each_mark_becomes_its_value_and_what_only_resembles_one_stays(
    text: str, values: dict[str, str], expected: str
) -> None:
    assert filled(text, **values) == expected


def test_a_mark_without_a_value_and_a_value_without_a_mark_are_refused() -> None:
    with pytest.raises(ValueError, match="@MISPELT@ has no value"):
        filled("@A@ @MISPELT@", A="1")
    with pytest.raises(ValueError, match="the template has no mark @B@"):
        filled("@A@", A="1", B="2")

"""Test that YAML output is read back unchanged."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.core.yamltext import comment, flow, scalar, with_comment

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
HOSTILE = [
    *["", "~", "null", "yes", "on", "1e3", "0x1f", "3.10", "12:30:45", ".inf", "=2.6", "@2.6:"],
    *["a: b", "a #b", "- x", "'", '"', "$(id)", "`id`", "%x", "*x", "&x", "!x", "{x}", "[x]", "é", "😀"],
    *["a\nb", "\x85", "\u2028", "\ufeff", "\x00"],
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_scalar_is_read_back(text: str) -> None:
    assert yaml.safe_load(f"k: {scalar(text)}\n") == {"k": text}
    assert yaml.safe_load(f"[{scalar(text)}, x]\n") == [text, "x"]


@given(TEXT)
def test_any_scalar_is_read_back(text: str) -> None:
    assert yaml.safe_load(f"k: {scalar(text)}\n") == {"k": text}


@given(st.lists(TEXT, max_size=4))
def test_any_list_is_read_back(texts: list[str]) -> None:
    assert yaml.safe_load(flow(texts)) == texts


@given(TEXT)
def test_a_reason_never_ends_its_comment(text: str) -> None:
    lines = ["k: v", *comment(text, 2), *with_comment("m: n", text)]

    assert yaml.safe_load("\n".join(lines)) == {"k": "v", "m": "n"}
    assert "".join(lines).isprintable()

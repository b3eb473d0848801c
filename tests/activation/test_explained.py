"""Test that each description has the same form, and that its text contains its data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from uenvtool.activation.explained import (
    Explained,
    explained_finding,
    explained_rule,
    explained_source,
    explained_variable,
)
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.rule import load_rules
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import load_all

KINDS = ["rule", "finding", "source", "variable"]


def explained(kind: str) -> Iterator[Explained]:
    """Yield the descriptions of all shipped entries of a kind."""
    tuning = load_all()
    if kind == "rule":
        yield from map(explained_rule, load_rules().values())
    elif kind == "finding":
        yield from map(explained_finding, load_findings().findings.values())
    elif kind == "source":
        yield from (explained_source(source, tuning) for source in load_sources().values())
    else:
        yield from (explained_variable(known.name, [known], tuning) for known in tuning.variables)


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_a_description_contains_its_data(kind: str) -> None:
    entries = list(explained(kind))

    assert len(entries) > 20
    assert {type(entry) for entry in entries} == {Explained}
    for entry in entries:
        rows = [row for row in entry.data.values() if isinstance(row, str)] if kind != "variable" else []
        rows += [*entry.data.get("lines", ()), *(setting["reason"] for setting in entry.data.get("settings", ()))]
        assert [row for row in rows if row not in entry.text] == []

"""Test that every link of the README and docs/ has a target, and that the index links to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.project import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_somewhere(page: Path) -> None:
    found = LINK.findall(page.read_text())

    assert [place for place, _ in found if not (page.parent / place).exists()] == []
    headings = {(place, part): anchors(page.parent / place) for place, part in found if part}
    assert [key for key, known in headings.items() if key[1] not in known] == []


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub creates for the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "questions.md"
    linked = {place for place, _ in LINK.findall(index.read_text())}

    assert {path.name for path in index.parent.glob("*.md")} - linked == {"questions.md"}


def test_a_quoted_part_of_a_page_is_its_heading() -> None:
    text = (ROOT / "docs" / "questions.md").read_text()

    for place, part in re.findall(r"\]\(([^)]+)\), \"([^\"]+)\"", text):
        assert f"## {part}" in (ROOT / "docs" / place).read_text(), part

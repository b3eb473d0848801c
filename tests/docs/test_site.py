"""Test that the documentation site builds without warnings, is complete, and needs no network."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT
from uenvtool.cli import COMMANDS
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.rule import load_rules
from uenvtool.knowledge.tuning import load_all

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("site")]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:|<link\b(?=[^>]*stylesheet)[^>]*href=\"?https?:"
)
"""Matches parts of a page that a browser would load from a network."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs mkdocs-material: pip install mkdocs-material")
    pytest.importorskip("material", reason="needs mkdocs-material: pip install mkdocs-material")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_rule_finding_variable_and_command_has_a_page(site: Path) -> None:
    wanted = {
        "rules": set(load_rules()),
        "findings": set(load_findings().findings),
        "variables": {variable.name for variable in load_all().variables},
        "commands": set(COMMANDS),
    }

    for folder, names in wanted.items():
        assert names <= {page.stem for page in (site / "reference" / folder).glob("*.html")}


def test_the_pages_that_messages_lead_to_are_there(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UENVTOOL_DOCS", top := "https://docs.example.org")
    found = [*load_rules().values(), *load_findings().findings.values(), *load_all().variables]

    assert [one.page for one in found if not (site / one.page.removeprefix(f"{top}/")).is_file()] == []


@pytest.mark.parametrize(
    "words", ["CUDA out of memory", "address already in use", "connection refused", "NCCL timeout"]
)
def test_the_search_finds_the_finding_of_an_error_message(site: Path, words: str) -> None:
    pages = json.loads((site / "search" / "search_index.json").read_text())["docs"]

    assert [page for page in pages if words.lower() in page["title"].lower() and "/findings/" in page["location"]]


def test_the_page_of_a_rule_shows_the_text_that_check_prints(site: Path) -> None:
    rules = load_rules()
    pages = {name: (site / "reference" / "rules" / f"{name}.html").read_text() for name in rules}

    shown = {name: " ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split()) for name, page in pages.items()}
    printed = {name: f"{rule.severity}[{name}] {rule.what}; fix: {rule.fix}" for name, rule in rules.items()}

    assert [name for name, text in printed.items() if text not in shown[name]] == []


def test_every_page_of_docs_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()

    assert [page.stem for page in (ROOT / "docs").glob("*.md") if f'href="{page.stem}.html"' not in menu] == []


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert len(pages) > 200
    assert [str(page) for page in pages if LOADED.search(page.read_text())] == []
    assert "@import" not in "".join(style.read_text() for style in site.rglob("*.css"))

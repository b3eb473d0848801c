"""The documentation as a site: built without a warning, complete, without a network, searched in a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Page, open_browser
from tests.support.project import ROOT
from tests.support.web import served
from uenvtool.cli import COMMANDS
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.rule import load_rules
from uenvtool.knowledge.tuning import load_all

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("site")]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:|<link\b(?=[^>]*stylesheet)[^>]*href=\"?https?:"
)
"""What a browser loads from a network when it shows a page."""


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


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as found:
        yield found


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


def test_every_page_of_docs_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()

    assert [page.stem for page in (ROOT / "docs").glob("*.md") if f'href="{page.stem}.html"' not in menu] == []


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))

    assert len(pages) > 200
    assert [str(page) for page in pages if LOADED.search(page.read_text())] == []
    assert "@import" not in "".join(style.read_text() for style in site.rglob("*.css"))


def test_the_picture_is_what_the_program_prints(site: Path) -> None:
    check = [sys.executable, "tools/site/picture.py", "--check"]

    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_search_finds_a_variable(site: Path, page: Page) -> None:
    found = "document.querySelector('.md-search-result__list a[href*=\"variables/NCCL_CROSS_NIC.html\"]') != null"

    with served(site) as url:
        page.show(f"{url}/index.html?q=NCCL_CROSS_NIC")
        page.wait(found)

        assert [asked for asked in page.requested if not asked.startswith((url, "data:", "blob:"))] == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_is_light_or_dark_as_the_reader_has_it_now(site: Path, page: Page, tmp_path: Path, dark: bool) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow: pip install pillow")

    with served(site) as url:
        page.show(f"{url}/index.html", dark=not dark)
        page.show(f"{url}/index.html", dark=dark)
        shot = page.picture(tmp_path / "page.png")

    with image.open(shot) as picture:
        colours = picture.convert("RGB")
        assert (sum(colours.getpixel((20, 700))) < 3 * 90) == dark
        assert colours.resize((64, 40)).getcolors(maxcolors=20) is None  # there are more


def test_a_page_fits_a_telephone(site: Path, page: Page) -> None:
    with served(site) as url:
        page.show(f"{url}/reference/variables/NCCL_PROTO.html", width=390, height=800)

        assert page.value("document.documentElement.scrollWidth") <= 390

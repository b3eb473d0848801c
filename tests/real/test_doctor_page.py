"""The page of `uenvtool doctor -o` in a real browser: ranks by keyboard, runs drawn, hostile names, no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.doctor.test_bandwidth import table
from tests.support.browser import Page
from uenvtool.core.page import page as made_page
from uenvtool.doctor.finding import Examination, Finding, RankView
from uenvtool.doctor.pages import SCRIPT, page_data
from uenvtool.doctor.ranks import RankReport
from uenvtool.knowledge.finding import load_findings

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser")]


def test_runs_of_a_test_are_drawn_with_their_numbers(cli: Cli, write: Write, place: Path, page: Page) -> None:
    evil = "<img src=x onerror=document.title=1>.out"
    write(evil, table(*[(1 << bits, bits * 4.0, "0") for bits in range(3, 28)]))
    write("b.out", table((1 << 20, 11.0, "0"), (1 << 25, 0.63, "951005"), (1 << 27, 84.6, "0")))
    cli("doctor", evil, "-s", "clariden", "--keep", "runs.jsonl")

    assert cli("doctor", "b.out", "-s", "clariden", "--keep", "runs.jsonl", "-o", "report.html").code == 1
    page.show(f"file://{place}/report.html")
    page.wait("document.querySelectorAll('svg polyline').length === 3")

    drawn = page.value("[...document.querySelectorAll('svg polyline')].map(one => one.className.baseVal)")
    assert drawn == ["earlier", "reference", "run"]
    assert page.value("getComputedStyle(document.querySelector('svg .run')).stroke") == "rgb(11, 87, 208)"
    assert "broken: NCCL delivers wrong data" in page.value("document.body.textContent")
    assert page.value("document.querySelectorAll('img').length") == 0
    assert page.requested == [f"file://{place}/report.html"]
    page.show(f"file://{place}/report.html", dark=True)
    assert page.value("getComputedStyle(document.querySelector('svg .run')).stroke") == "rgb(138, 180, 248)"
    page.picture(place / "dark.png")


FOCUS = "document.activeElement.textContent"
SHOWN = "[...document.querySelectorAll('.rank')].filter(one => !one.hidden).map(one => one.textContent)"
RANK = "document.getElementById('rank').textContent"


def reports(folder: Path, size: int) -> None:
    """What that many ranks left; 37 has another variable and a fault, the last one began and did not report."""
    folder.mkdir()
    for rank in range(size - 1):
        odd = rank == 37
        values = {"NCCL_CROSS_NIC": "0" if odd else "1", "NCCL_NET": "AWS Libfabric", "torch": "2.9.1"}
        faults = (("plugin-not-found", "<b>no libnccl-net.so"),) if odd else ()
        it = RankReport(rank=rank, node=f"nid{rank // 4:06}", faults=faults, values=values)
        (folder / f"{rank}.json").write_text(json.dumps(it.data()))
    (folder / f"{size - 1}.begun").write_text(json.dumps({"node": f"nid{(size - 1) // 4:06}"}))


def key(page: Page, name: str) -> None:
    for kind in ("keyDown", "keyUp"):
        page("Input.dispatchKeyEvent", type=kind, key=name, code=name)


def test_four_thousand_ranks_are_read_by_keyboard(cli: Cli, place: Path, page: Page, tmp_path: Path) -> None:
    reports(place / "ranks", 4_000)

    assert cli("doctor", "--ranks", "--folder", "ranks", "-o", "report.html").code == 1
    page.show(f"file://{place}/report.html", height=1200)
    page.wait(f"{SHOWN}.length === 4000")

    assert page.value("document.querySelectorAll('.rank[tabindex=\"0\"]').length") == 1  # one stop for Tab
    page.value("document.querySelector('.rank[tabindex=\"0\"]').focus()")
    for name in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
        key(page, name)
    assert page.value(FOCUS) == "8"
    assert page.value(RANK).startswith("Rank 8 on nid000002")
    key(page, "End")
    assert page.value(RANK).startswith("Rank 3999 on nid000999it did not report")
    page.value("[...document.querySelectorAll('button')].find(one => one.textContent.startsWith('Only')).click()")
    assert page.value(SHOWN) == ["37!", "3999!"]
    page.value("document.getElementById('search').focus()")
    page("Input.insertText", text="NID000009")
    assert page.value(SHOWN) == ["37!"]
    assert "<b>no libnccl-net.so" in page.value(RANK)
    assert "0 on rank 37" in page.value("document.querySelector('[aria-label=\"1 differ\"]').textContent")
    assert "AWS Libfabric" in page.value("document.querySelector('[aria-label=\"What all ranks have\"]').textContent")
    assert page.requested == [f"file://{place}/report.html"]


def test_of_a_hundred_thousand_findings_each_is_found(page: Page, tmp_path: Path) -> None:
    known = load_findings().findings["rank-differs"]
    findings = tuple(
        Finding(known=known, detail=f"NCCL_{at} is x; elsewhere unset", ranks=frozenset({at % 100}))
        for at in range(100_000)
    )
    ranks = tuple(RankView(rank=rank, node=f"nid{rank // 4:06}") for rank in range(100))
    text = made_page("many", page_data(Examination(findings=findings, ranks=ranks)), SCRIPT)
    (tmp_path / "many.html").write_text(text)
    drawn = "document.querySelectorAll('[aria-label=\"100000 findings\"] tbody tr').length"

    page.show(f"file://{tmp_path}/many.html", height=1200)
    page.wait(f"{drawn} > 0")

    assert len(text) < 150 * len(findings)
    assert page.value(drawn) < 1_000
    assert "of 100000 rows: show more" in page.value("document.body.textContent")
    page.value("document.querySelector('[aria-label=\"Search: 100000 findings\"]').focus()")
    page("Input.insertText", text="NCCL_99998 ")
    assert page.value(drawn) == 1
    page.value("document.querySelector('summary').click()")
    page.wait("document.querySelector('details').textContent.includes('rank-differs')")
    page.value("document.querySelector('tbody button.link').click()")
    assert page.value(FOCUS) == "98!"
    assert "900 more" in page.value(RANK)


@pytest.mark.parametrize(("dark", "ground"), [(False, "rgb(255, 255, 255)"), (True, "rgb(20, 24, 29)")])
def test_ranks_are_seen_in_light_and_dark(
    cli: Cli, place: Path, page: Page, tmp_path: Path, dark: bool, ground: str
) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow: pip install pillow")
    reports(place / "ranks", 64)
    cli("doctor", "--ranks", "--folder", "ranks", "-o", "report.html")

    page.show(f"file://{place}/report.html", height=1200, dark=dark)
    page.wait(f"{SHOWN}.length === 64")

    assert page.value("getComputedStyle(document.body).backgroundColor") == ground
    with image.open(page.picture(tmp_path / "ranks.png")) as shot:
        assert len(shot.convert("RGB").getcolors(maxcolors=1 << 24)) > 50


def test_a_finding_shows_its_ranks(cli: Cli, place: Path, page: Page) -> None:
    reports(place / "ranks", 64)
    cli("doctor", "--ranks", "--folder", "ranks", "-o", "report.html")

    page.show(f"file://{place}/report.html", height=1200)
    page.wait(f"{SHOWN}.length === 64")
    page.value(
        "[...document.querySelectorAll('button.link')].find(one => one.textContent.includes('nid000009')).click()"
    )

    assert page.value(SHOWN) == ["37!"]
    assert page.value(FOCUS) == "37!"

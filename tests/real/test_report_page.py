"""The page of `uenvtool report` in a real browser: searched, by keyboard, dark, hostile, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Cli
from tests.support.browser import Page
from uenvtool.core.page import page as made_page
from uenvtool.report.report import SCRIPT

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser")]
ROWS = "[...document.querySelectorAll('[aria-label=\"236 packages\"] tbody tr')].map(row => row.cells[0].textContent)"
CHOOSE = "[...document.querySelectorAll('button.link')].find(one => one.textContent === {!r}).click()"
DETAIL = "document.getElementById('detail').textContent"


def key(page: Page, name: str, code: int) -> None:
    for kind in ("keyDown", "keyUp"):
        page("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)


def inked(picture: Path, box: tuple[int, int, int, int] | None = None) -> tuple[int, int]:
    """How many colours a part of a picture has, and how bright its first point is."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow: pip install pillow")
    with image.open(picture) as shot:
        part = shot.convert("RGB").crop(box) if box else shot.convert("RGB")
        return len(part.getcolors(maxcolors=1 << 24)), sum(part.getpixel((0, 0)))


def test_a_stack_is_searched_and_asked_why_by_keyboard(cli: Cli, place: Path, page: Page, tmp_path: Path) -> None:
    cli("report", ROOT / "envs/pytorch-2.6/clariden-gh200")

    page.show(f"file://{place}/report.html")
    page.wait(f"{ROWS}.length >= 100")
    page.value("document.getElementById('search').focus()")
    page("Input.insertText", text="PSUTIL")
    assert page.value(ROWS) == ["py-psutil"]
    assert page.value("document.querySelector('[role=status]').textContent") == "1 of 236"

    for _ in range(30):
        key(page, "Tab", 9)
        if page.value("document.activeElement.textContent") == "py-psutil":
            break
    page.value("document.activeElement.click()")
    assert "Why it is here" in page.value(DETAIL)
    assert "Who needs it (1)py-wandb" in page.value(DETAIL)
    assert page.value("document.activeElement.textContent") == "py-psutil"  # the keyboard stays where it was
    assert page.value("location.hash") == "#py-psutil"

    page.value("document.querySelector('[data-narrow=why]').click()")
    everything, _ = inked(page.picture(tmp_path / "light.png"))
    page.value("document.getElementById('theme').click()")
    page.wait("getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 29)'")
    _, dark = inked(page.picture(tmp_path / "dark.png"), (5, 300, 6, 301))

    assert everything > 100
    assert dark < 3 * 60
    assert page.requested == [f"file://{place}/report.html"]


def stack(count: int, **more: Any) -> dict[str, Any]:
    """Data of that many packages, each of which needs two others."""
    packages = [
        {
            "name": f"package-{index}",
            "version": "1.0",
            "kind": "spack",
            "bytes": (index + 1) * 1000,
            "needs": [need for need in (2 * index + 1, 2 * index + 2) if need < count],
            "builds": [],
            "asked": index == 0,
            "why": [],
            "outside": "",
            "licence": "MIT",
            "published": "",
            "cves": [],
            "seconds": None,
            **more,
        }
        for index in range(count)
    ]
    lists = {name: [] for name in ("published", "cves", "critical_path", "variables", "unseen")}
    return {"title": "many", "facts": {}, "packages": packages, "source": "", **lists}


def test_five_hundred_packages_have_a_graph_and_a_treemap(page: Page, tmp_path: Path) -> None:
    (tmp_path / "many.html").write_text(made_page("many", stack(500), SCRIPT))

    page.show(f"file://{tmp_path}/many.html#package-499", height=1400)
    page.wait(f"{DETAIL}.startsWith('package-499')")

    assert page.value("document.querySelectorAll('#sizes .part').length") == 500
    chain = "[...document.querySelectorAll('#why button')].map(one => one.textContent.split(' ')[0])"
    assert page.value(chain) == [f"package-{index}" for index in (0, 2, 6, 14, 30, 61, 124, 249, 499)]
    whole = inked(page.picture(tmp_path / "many.png"))
    page.value("document.getElementById('graph').focus()")
    key(page, "0", 48)
    page.value("document.querySelector('[data-narrow=both]').click()")
    assert inked(page.picture(tmp_path / "narrow.png")) != whole


def test_a_reader_who_scrolls_or_names_a_package_sees_all_rows(page: Page, tmp_path: Path) -> None:
    (tmp_path / "many.html").write_text(made_page("many", stack(500), SCRIPT))
    drawn = "document.querySelectorAll('[aria-label=\"500 packages\"] tbody tr').length"
    page.show(f"file://{tmp_path}/many.html")
    page.wait(f"{drawn} >= 100")
    assert page.value(drawn) < 500
    assert page.value("document.querySelector('[aria-label=\"500 packages\"] table').ariaRowCount") == "501"

    bottom = "list.scrollTop = list.scrollHeight"
    page.wait(f"(() => {{ const list = document.querySelector('.scroll'); {bottom}; return {drawn} === 500; }})()")

    page.show(f"file://{tmp_path}/many.html?again#package-450")
    page.wait(f"{DETAIL}.startsWith('package-450')")
    assert page.value("document.querySelector('tr[aria-selected=true]').textContent").startswith("package-450")


def test_the_critical_path_says_how_long_it_took(page: Page, tmp_path: Path) -> None:
    data = stack(20)
    data["critical_path"] = ["package-15", "package-7", "package-3"]
    for index, seconds in ((15, 90.0), (7, 30.0)):
        data["packages"][index]["seconds"] = seconds
    (tmp_path / "path.html").write_text(made_page("path", data, SCRIPT))

    page.show(f"file://{tmp_path}/path.html#package-15")
    page.wait(f"{DETAIL}.startsWith('package-15')")

    text = page.value("document.body.textContent")
    assert "3 packages, each waits for the one before it; 2 were built here before, in 2.0 minutes." in text
    assert "package-15 > package-7 > package-3" in text
    assert "90 s, here" in page.value(DETAIL)


def test_the_graph_is_moved_and_zoomed_by_keyboard(page: Page, tmp_path: Path) -> None:
    (tmp_path / "many.html").write_text(made_page("many", stack(500), SCRIPT))
    page.show(f"file://{tmp_path}/many.html", dark=True)
    page.value("document.getElementById('graph').focus()")
    pictures = [page.picture(tmp_path / "whole.png").read_bytes()]

    for name, code in (("+", 187), ("ArrowLeft", 37), ("ArrowDown", 40)):
        key(page, name, code)
        page.value("drawn = 0; requestAnimationFrame(() => requestAnimationFrame(() => { drawn = 1; }))")
        page.wait("drawn === 1")
        pictures.append(page.picture(tmp_path / f"{code}.png").read_bytes())

    assert len(set(pictures)) == 4
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"  # as the reader has it


def test_packages_that_need_each_other_are_drawn(page: Page, tmp_path: Path) -> None:
    data = stack(3)
    for index, package in enumerate(data["packages"]):
        package["needs"] = [(index + 1) % 3, index]
    (tmp_path / "circle.html").write_text(made_page("circle", data, SCRIPT))

    page.show(f"file://{tmp_path}/circle.html#package-2")

    page.wait(f"{DETAIL}.startsWith('package-2')")


def test_nothing_that_a_package_says_is_run(page: Page, tmp_path: Path) -> None:
    evil = "</script><script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
    data = stack(2, name=evil, licence=evil, why=[evil], outside=evil)
    data["cves"] = [{"id": evil, "fixed": evil, "source": "javascript:document.title='run'", "packages": [evil]}]
    (tmp_path / "evil.html").write_text(made_page(evil, data, SCRIPT))

    page.show(f"file://{tmp_path}/evil.html")
    page.wait("document.querySelectorAll('tbody tr').length > 1")
    page.value(CHOOSE.format(evil))

    assert evil in page.value(DETAIL)
    assert page.value("document.title") == evil
    assert page.value("document.querySelectorAll('img, a[href^=javascript]').length") == 0
    assert page.requested == [f"file://{tmp_path}/evil.html"]

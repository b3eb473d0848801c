"""The page of `uenvtool doctor -o` in a real browser: a test of the network, hostile names, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Answer
from tests.doctor.test_bandwidth import table
from tests.support.browser import Page, open_browser

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("browser")]
Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as found:
        yield found


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

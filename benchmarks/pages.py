"""How the pages of `report` and `doctor -o` run in a real Chromium: first paint, frames a second, long tasks.

    python -m benchmarks.pages

A report of three environments that ship as one of 605 packages, and doctor's page of 100,000 findings on 10,000 ranks.
Something is done at every frame, or a letter typed at every tenth, while the page notes when its frames begin.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.browser import Page, open_browser
from uenvtool.core.page import page as made_page
from uenvtool.doctor import pages
from uenvtool.doctor.finding import Examination, Finding, RankView
from uenvtool.knowledge.finding import load_findings
from uenvtool.report import report
from uenvtool.report.request import ReportRequest
from uenvtool.report.stack import read_stack

LOCKS = [
    Path(__file__).parents[1] / f"envs/pytorch-{version}/clariden-gh200/spack.lock" for version in ("2.6", "2.8", "2.9")
]
FINDINGS, RANKS, FRAMES = 100_000, 10_000, 180
WATCHED = """new Promise((done) => {
  const begun = [], long = [], act = %s;
  const watch = new PerformanceObserver((list) => list.getEntries().forEach((one) => long.push(one.duration)));
  watch.observe({entryTypes: ["longtask"]});
  const frame = (now) => {
    begun.push(now);
    if (begun.length <= %d) { act(begun.length); requestAnimationFrame(frame); }
    else setTimeout(() => { watch.disconnect(); done({begun, long}); }, 200);
  };
  requestAnimationFrame(frame);
})"""
WHEEL = """(n) => document.getElementById('graph').dispatchEvent(new WheelEvent('wheel',
  {deltaY: n % 120 < 60 ? -30 : 30, clientX: 700, clientY: 300, cancelable: true}))"""
DRAG = """(n) => { const graph = document.getElementById('graph'); graph.setPointerCapture = () => {};
  graph.dispatchEvent(new PointerEvent(n > 1 ? 'pointermove' : 'pointerdown',
    {clientX: 700 + 200 * Math.sin(n / 20), clientY: 300 + 60 * Math.cos(n / 20)})); }"""
CHOOSE = "(n) => { if (n % 10 === 0) document.querySelectorAll('tbody button')[n / 2].click(); }"
SCROLL = "() => { document.querySelector('.scroll').scrollTop += 60; }"
TYPE = """(n) => { if (n %% 10) return; const field = document.querySelector('input[type=search]'), words = '%s';
  field.value = words.slice(0, n / 10 %% (words.length + 1)); field.dispatchEvent(new Event('input')); }"""


def main() -> None:
    """Measure both pages, and print a table."""
    with tempfile.TemporaryDirectory() as name, open_browser() as page:
        folder = Path(name)
        begun = time.perf_counter()
        (folder / "report.html").write_text(report_of_many(folder))
        actions = {"nothing": "() => 0", "zoom": WHEEL, "drag": DRAG, "choose": CHOOSE, "search": TYPE % "py-torch"}
        measure(page, folder / "report.html", time.perf_counter() - begun, actions)
        begun = time.perf_counter()
        (folder / "doctor.html").write_text(many_findings())
        measure(page, folder / "doctor.html", time.perf_counter() - begun, {"scroll": SCROLL, "search": TYPE % "x4711"})


def report_of_many(folder: Path) -> str:
    """Return the page of the packages of several locks."""
    merged = [json.loads(path.read_text()) for path in LOCKS]
    specs = {key: spec for lock in merged for key, spec in lock["concrete_specs"].items()}
    roots = [root for lock in merged for root in lock["roots"]]
    (folder / "spack.lock").write_text(json.dumps({**merged[0], "concrete_specs": specs, "roots": roots}))
    request = ReportRequest(source=str(folder / "spack.lock"))
    return made_page("many", report.describe(read_stack(request), request), report.SCRIPT)


def many_findings() -> str:
    """Return the page of many findings, each on two of many ranks."""
    known = load_findings().findings["rank-differs"]
    ranks = tuple(RankView(rank=rank, node=f"nid{rank // 4:06}") for rank in range(RANKS))
    pairs = (frozenset({at % RANKS, 7 * at % RANKS}) for at in range(FINDINGS))
    findings = tuple(
        Finding(known=known, detail=f"NCCL_{at} is x{at}; elsewhere unset", ranks=odd) for at, odd in enumerate(pairs)
    )
    return made_page("many", pages.page_data(Examination(findings=findings, ranks=ranks)), pages.SCRIPT)


def measure(page: Page, file: Path, seconds: float, actions: Mapping[str, str]) -> None:
    """Open a page, do each of the actions for FRAMES frames, and print what came of it."""
    begun = time.perf_counter()
    page.show(f"file://{file}", height=1000)
    page.wait("document.querySelectorAll('tbody tr').length > 1 && performance.getEntriesByType('paint').length > 0")
    drawn, painted = time.perf_counter() - begun, page.value("performance.getEntriesByType('paint')[0].startTime")
    print(
        f"\n{file.name}: {file.stat().st_size / 1e6:.1f} MB, made in {seconds:.1f} s; first paint {painted:.0f} ms",
        end="",
    )
    print(f", whole after {drawn:.1f} s\n\n| done | frames a second | longest ms | over 50 ms |\n|---|---|---|---|")
    for name, act in actions.items():
        call = {"awaitPromise": True, "returnByValue": True}
        found = page("Runtime.evaluate", expression=WATCHED % (act, FRAMES), **call)["result"]["value"]
        gaps = [after - before for before, after in zip(found["begun"], found["begun"][1:], strict=False)]
        rate, longest = 1000 / statistics.mean(gaps), max(found["long"], default=0)
        print(f"| {name} | {rate:.1f} | {max(gaps):.0f} | {len(found['long'])}, at most {longest:.0f} |")


if __name__ == "__main__":
    main()

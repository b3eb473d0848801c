"""Test that the benchmarks run and write their results. No test depends on speed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.project import ROOT

pytestmark = [pytest.mark.real, pytest.mark.slow]
RUN = ROOT / "tools/benchmarks/run"


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(
        [RUN, *words, "-o", str(folder)], capture_output=True, text=True, check=False, env=env, cwd=folder.parent
    )


def test_a_small_run_writes_a_table_and_a_picture_of_each_comparison(tmp_path: Path) -> None:
    done = run("--small", "startup", "rendering", "job", "doctor_log", folder=tmp_path / "results")

    assert done.returncode == 0, done.stderr
    text = (tmp_path / "results/results.md").read_text()
    assert "| uenvtool doctor |" in text
    assert "cores for this" in text
    pictures = sorted((tmp_path / "results").glob("*.svg"))
    assert len(pictures) == 8 == text.count("![](")
    assert {ElementTree.parse(picture).getroot().tag for picture in pictures} == {"{http://www.w3.org/2000/svg}svg"}


def test_a_name_that_no_benchmark_has_is_refused(tmp_path: Path) -> None:
    done = run("nosuch", folder=tmp_path / "results")

    assert (done.returncode, "nosuch; known: startup," in done.stderr) == (2, True)


def test_the_ratio_is_of_the_same_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "benchmarks"))
    import side_by_side

    assert side_by_side.ratios([2, 20, 6], [1, 10, 2]) == (2, 2, 3)


def test_a_time_that_grows_with_the_square_has_the_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "benchmarks"))
    import side_by_side

    lines = list(side_by_side.growth({f"{size} lines": 1 + 1e-6 * (size - 10) ** 2 for size in (10, 1_000, 10_000)}))

    assert lines[0] == "beyond the first 10, one of 1000 lines costs 990 us"
    assert lines[-1] == "the time beyond that grows with the number of lines to the power of 2.00"

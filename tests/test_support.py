"""What tests share does what it says: skips are counted, cases are left out, archives are unpacked once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import made_once, needs, peers
from tests.support.project import ROOT


def test_skips_are_told_in_three_lines_by_what_is_missing() -> None:
    reasons = ["Skipped: needs zsh: apt-get install zsh"] * 15
    reasons += ["Skipped: needs bash 4.2: build it", "needs fish: apt-get install fish", "Skipped: no loop devices"]

    lines = needs.summary(reasons, 100)

    assert lines == [
        "18 of 100 tests were skipped, for want of: zsh (15), bash 4.2 (1), fish (1), another reason (1)",
        "as root: apt-get install fish zsh",
        'how to get the others: CONTRIBUTING.md, "Real programs in tests"; each reason: tools/test -rs',
    ]
    assert needs.summary([], 100) == []


def test_slow_tests_are_left_out_unless_they_are_wanted() -> None:
    def collected(*options: str) -> int:
        words = [sys.executable, "-m", "pytest", "-q", "-n0", "--collect-only", "-p", "no:cacheprovider", *options]
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        listed = subprocess.run(
            [*words, "tests/venv/test_precedence.py"], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        return listed.stdout.count("::")

    assert collected("--slow") >= collected() > 0


@needs.needs("xz")[0]
def test_an_archive_is_unpacked_once_and_again_if_it_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "CACHE", tmp_path / "cache")
    archive = tmp_path / "thing-1.tar.xz"

    def packed(text: str) -> Path:
        (tmp_path / "thing").mkdir(exist_ok=True)
        (tmp_path / "thing" / "file").write_text(text)
        subprocess.run(["tar", "-cJf", archive, "-C", tmp_path, "thing"], check=True)
        return peers.unpacked(archive)

    first = packed("one")
    (first / "used").touch()

    assert (peers.unpacked(archive) / "used").exists()
    other = packed("another one that is longer " + "".join(map(chr, range(300, 900))))
    assert other != first
    assert (other / "file").read_text().startswith("another")
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {"", ".lock"} or first.suffix


def test_a_peer_that_is_named_but_not_there_is_not_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(peers.SPACK.variable, "/nonexistent")

    assert peers.SPACK.find() is None


def test_what_another_checkout_may_read_now_is_kept_and_what_nobody_used_for_a_day_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_once, "CACHE", tmp_path)
    old, used = (made_once.made_once("x", inputs, lambda folder: (folder / "file").touch()) for inputs in ("1", "2"))
    os.utime(old, (0, 0))

    made_once.made_once("x", "3", lambda folder: (folder / "file").touch())

    assert not old.exists()
    assert (used / "file").exists()

"""Test that incomplete files of an earlier run do not stop the next run of Spack."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from uenvtool.core.errors import ToolFailed
from uenvtool.core.processes import Completed
from uenvtool.env.runner import answer_of, remove_half_made_clones


@pytest.fixture
def clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spack's folder of clones, with a whole one and one that was cut short."""
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(tmp_path))
    folder = tmp_path / "package_repos"
    for name in ("whole/.git", "half/.git"):
        (folder / name).mkdir(parents=True)
    (folder / "whole" / "spack-repo-index.yaml").touch()
    (tmp_path / "package-repository.lock").touch()
    return folder


def test_a_clone_that_was_cut_short_is_removed_and_one_that_is_gone_is_none(clones: Path) -> None:
    (clones / "gone").symlink_to("nowhere")

    remove_half_made_clones()

    assert sorted(os.listdir(clones)) == ["gone", "whole"]


def test_a_clone_that_another_spack_makes_stays(clones: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        descriptor = os.open(clones.parent / "package-repository.lock", os.O_RDWR)
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        os.write(writing, b"x")
        signal.pause()
    os.read(reading, 1)

    remove_half_made_clones()

    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert sorted(os.listdir(clones)) == ["half", "whole"]


def test_the_last_line_is_the_answer_of_spack_and_without_one_it_has_failed() -> None:
    assert answer_of(Completed(("spack",), 0, '==> Warning: old\n[1, "a"]\n', "")) == [1, "a"]
    for printed in ("", "\n", "==> Warning: no answer\n"):
        with pytest.raises(
            ToolFailed, match=r"printed no result\nhint: run it yourself to see the cause: spack python x.py"
        ):
            answer_of(Completed(("spack", "python", "x.py"), 0, printed, ""))

"""Test that each run has its own working directories, even if other runs start at the same time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.files import atomic, places
from uenvtool.core.files.atomic import make_folders
from uenvtool.core.files.trees import remove_tree


def test_a_new_folder_that_another_run_looks_at_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    make, looked_at = tempfile.mkdtemp, []

    def made_and_looked_at(**options: str) -> str:
        folder = make(**options)
        if not looked_at:  # another run has seen it before it is locked, and takes it for what a killed one left
            looked_at.append((folder, os.open(folder, os.O_RDONLY)))
            fcntl.flock(looked_at[0][1], fcntl.LOCK_EX)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made_and_looked_at)  # the moment between two of its steps

    with files.scratch_folder() as folder:
        assert str(folder) != looked_at[0][0]
        assert folder.stat().st_mode & 0o777 == 0o700

    os.close(looked_at[0][1])
    assert not folder.exists()


@pytest.mark.parametrize("of", ["another", "all", "group"])
def test_what_another_user_has_prepared_is_not_taken_for_what_a_killed_run_left(place: Path, of: str) -> None:
    work = place / ".ov.uenvtool-work"
    (work / "old/bin").mkdir(parents=True)
    (work / "old/bin/python").write_text("not yours")
    if of == "another":
        if os.geteuid() != 0:
            pytest.skip("needs root: only root gives a folder away")
        work.chmod(0o755)
        os.chown(work, 1234, 1234)
    else:
        work.chmod(0o777 if of == "all" else 0o775)

    error = r"\.ov\.uenvtool-work already exists and "
    with pytest.raises(BadInput, match=error), files.workplace(place / "ov"):
        pass

    assert not (place / "ov").exists()
    assert (work / "old/bin/python").read_text() == "not yours"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_folder_is_in_the_way_of_the_work(place: Path, kind: str) -> None:
    work = place / ".ov.uenvtool-work"
    work.symlink_to(place) if kind == "link" else work.write_text("mine")

    with (
        pytest.raises(BadInput, match="already exists and is not a directory"),
        files.workplace(place / "ov"),
    ):
        pass

    assert os.listdir(place) == [work.name]


def test_what_a_killed_run_of_ours_left_is_brought_back_and_nobody_else_can_write_there(place: Path) -> None:
    work = place / ".ov.uenvtool-work"
    (work / "old").mkdir(parents=True)
    work.chmod(0o755)
    (work / "old/mine").write_text("mine")

    with files.workplace(place / "ov"):
        assert (place / "ov/mine").read_text() == "mine"
    with files.workplace(place / "new") as fresh:
        assert fresh.stat().st_mode & 0o777 == 0o700

    assert sorted(os.listdir(place)) == ["ov"]


def test_ctrl_c_while_files_are_removed_leaves_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Path] = []

    def interrupted(path: Path) -> None:
        removed.append(path)
        if len(removed) == 1:
            raise KeyboardInterrupt
        remove_tree(path)

    monkeypatch.setattr(places, "remove_tree", interrupted)
    with pytest.raises(KeyboardInterrupt), files.workplace(place / "v") as work:
        make_folders(work / "new/folder", [])

    assert [*place.iterdir()] == []


def test_ctrl_c_after_a_temporary_file_was_written_leaves_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = atomic._stage

    def interrupted(*arguments: Any) -> None:
        stage(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "_stage", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write(place / "new/file", "text")

    assert [*place.iterdir()] == []

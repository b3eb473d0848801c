"""The contents of an image, from its directory, additions and exclusions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from uenvtool.core.errors import BadInput
from uenvtool.image.tree import FILE_MODE, PROGRAM_MODE, Tree, walk

LEFT_OUT, SKIPPED = frozenset({b"meta", b"lib/old"}), frozenset({b"__pycache__"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files, folders and links, some of which no image takes."""
    for name in ("bin/run", "lib/a.py", "lib/__pycache__/a.pyc", "lib/old/x", "meta/env.json", "n\udcffme/f"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name.encode("utf-8", "replace").decode())
    (tmp_path / "bin" / "run").chmod(0o700)
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "nowhere").symlink_to("absent")
    return tmp_path


def test_names_and_base_names_are_left_out(folder: Path) -> None:
    found = walk(folder, left_out=LEFT_OUT, skipped=SKIPPED)

    taken = {b"bin", b"bin/run", b"lib", b"lib/a.py", b"lib64", b"nowhere", b"n\xffme", b"n\xffme/f"}
    assert found.keys() - {b"home", b"work"} == taken  # two directories of every test


def test_what_is_put_in_has_the_mode_of_the_file_that_it_replaces(folder: Path) -> None:
    added = dict.fromkeys((b"bin/run", b"lib/a.py", b"lib64", b"new/one"), b"new")
    tree = Tree(folder=folder, entries=walk(folder, left_out=LEFT_OUT), added=added, left_out=LEFT_OUT)

    modes = {name: tree.expected[name].mode for name in added}

    assert modes == {b"bin/run": PROGRAM_MODE, b"lib/a.py": FILE_MODE, b"lib64": FILE_MODE, b"new/one": FILE_MODE}
    assert tree.added_folders() == [b"new"]


def test_a_pipe_is_rejected_by_name(folder: Path) -> None:
    os.mkfifo(folder / "lib" / "pipe")

    with pytest.raises(BadInput, match="'lib/pipe' is not a file, a directory or a symlink"):
        walk(folder)

"""What an image will hold, when the folder was walked and when it was not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from uenvtool.core.errors import BadInput
from uenvtool.image.pack import pack
from uenvtool.image.programs import find_programs
from uenvtool.image.tree import EPOCH, FILE_MODE, PROGRAM_MODE, Tree, parents, walk

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


def test_a_name_is_the_same_whether_the_folder_was_walked_or_not(folder: Path) -> None:
    found = walk(folder, left_out=LEFT_OUT, skipped=SKIPPED)
    here = [
        os.path.relpath(os.path.join(root, name), os.fsencode(folder))
        for root, *both in os.walk(os.fsencode(folder))
        for names in both
        for name in names
    ]
    names = {
        *here,
        *(b"lib64/a.py", b"absent", b"bin/run/x", b"lib/a.py/x/y"),
        *(up for name in here for up in parents(name)),
    }
    known, unknown = Tree(folder=folder, known=found), Tree(folder=folder, left_out=LEFT_OUT, skipped=SKIPPED)

    assert {name: unknown.replaced(name) for name in names} == {name: known.replaced(name) for name in names}
    assert unknown.entries == found
    assert b"meta/env.json" in names - found.keys()


def test_what_is_put_in_has_the_mode_of_the_file_that_it_replaces(folder: Path) -> None:
    added = dict.fromkeys((b"bin/run", b"lib/a.py", b"lib64", b"new/one"), b"new")
    tree = Tree(folder=folder, added=added, left_out=LEFT_OUT)

    modes = {name: tree.expected[name].mode for name in added}

    assert modes == {b"bin/run": PROGRAM_MODE, b"lib/a.py": FILE_MODE, b"lib64": FILE_MODE, b"new/one": FILE_MODE}
    assert tree.added_folders() == [b"new"]


def test_a_pipe_is_named_although_the_folder_is_walked_beside_mksquashfs(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    os.mkfifo(folder / "lib" / "pipe")
    work = tmp_path_factory.mktemp("work")

    with pytest.raises(BadInput, match="'lib/pipe' is not a file, a directory or a symlink"):
        pack(find_programs(), Tree(folder=folder), work / "image", work, EPOCH)

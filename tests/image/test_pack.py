"""What of a file is packed and compared."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from uenvtool.core.errors import ToolFailed
from uenvtool.image.pack import pack, read_back
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import MARK
from uenvtool.image.tree import COPY_BYTES, EPOCH, Entry, Tree, file_content, walk


@pytest.mark.parametrize("size", [1, 5, COPY_BYTES - 1, COPY_BYTES, COPY_BYTES + 1, 2 * COPY_BYTES, 3 * COPY_BYTES + 7])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_file_that_changed_its_size_gives_another_number_of_bytes(tmp_path: Path, size: int, more: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * (size + more))
    tree = Tree(folder=tmp_path, entries={b"file": Entry(kind="f", mode=0o644, size=size)})

    read = sum(len(piece) for piece in file_content(tree, b"file"))

    assert (read > size, read < size) == (more > 0, more < 0)


OTHER_ATTRIBUTES = "'{}' has another kind, mode, time, owner, size or target"
CHANGES = {
    "printf TEXT > file": "'file' has other content",
    "printf longer > file": OTHER_ATTRIBUTES.format("file"),
    "chmod 755 file": OTHER_ATTRIBUTES.format("file"),
    "ln -sfn link link": OTHER_ATTRIBUTES.format("link"),
    "ln -sfn fil link": "'link' has another symlink target, or unexpected attributes",
    "mv file other": "'file' is in the image but was not packed, or occurs twice",
    "rm file": "names differ",
    "touch new": "names differ",
    "true": "",
}
"""What happens to a tree, and how the image that was made of it differs then."""


def test_an_image_that_is_not_its_tree_is_told(tmp_path: Path) -> None:
    folder, image = tmp_path / "tree", tmp_path / "image"
    folder.mkdir()
    (folder / "file").write_text("text")
    (folder / "link").symlink_to("file")
    pack(find_programs(), Tree(folder=folder, entries=walk(folder)), image, tmp_path)
    told = {}

    for number, change in enumerate(CHANGES):
        changed = shutil.copytree(folder, tmp_path / str(number), symlinks=True)
        subprocess.run(["sh", "-ec", change], cwd=changed, check=True)
        told[change] = ""
        try:
            read_back(find_programs(), image, Tree(folder=changed, entries=walk(changed)), EPOCH)
        except ToolFailed as error:
            told[change] = error.problems[0].message.removeprefix("the written image differs from the packed files: ")

    assert told == CHANGES


def test_missing_name_is_reported_as_the_line_that_replaces_it(tmp_path: Path) -> None:
    lines = {"'other'": f"other R {EPOCH} 644 0 0 0 0\n", "'/'": f"/ D {EPOCH} 755 0 0\n"}
    tree = Tree(folder=tmp_path, entries={b"file": Entry(kind="f", mode=0o644)})
    unsquashfs = tmp_path / "unsquashfs"
    unsquashfs.touch(mode=0o755)

    for name, line in lines.items():
        header = f"/ D {EPOCH} 755 0 0\n{line}{MARK.decode()}"
        unsquashfs.write_text(f"#!/bin/sh\nprintf %s {shlex.quote(header)}\n")
        with pytest.raises(ToolFailed, match=f"{name} is in the image but was not packed, or occurs twice"):
            read_back(replace(find_programs(), unsquashfs=str(unsquashfs)), tmp_path / "image", tree, EPOCH)


def test_the_reason_of_unsquashfs_is_kept_where_it_cannot_read_the_image(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"no squashfs")

    with pytest.raises(ToolFailed, match=r"unsquashfs failed: .*image"):
        read_back(find_programs(), tmp_path / "image", Tree(folder=tmp_path, entries={}), EPOCH)

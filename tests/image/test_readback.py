"""What of a file is packed and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.needs import needs
from uenvtool.core.errors import ToolFailed
from uenvtool.image.programs import find_programs
from uenvtool.image.readback import read_back
from uenvtool.image.tree import COPY_BYTES, EPOCH, Entry, Tree, file_content


@pytest.mark.parametrize("size", [1, 5, COPY_BYTES - 1, COPY_BYTES, COPY_BYTES + 1, 2 * COPY_BYTES, 3 * COPY_BYTES + 7])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_file_that_changed_its_size_gives_another_number_of_bytes(tmp_path: Path, size: int, more: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * (size + more))
    tree = Tree(folder=tmp_path, known={b"file": Entry(kind="f", mode=0o644, size=size)})

    read = sum(len(piece) for piece in file_content(tree, b"file", size))

    assert (read > size, read < size) == (more > 0, more < 0)


@needs("mksquashfs")[0]
def test_the_reason_of_unsquashfs_is_kept_where_it_cannot_read_the_image(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"no squashfs")

    with pytest.raises(ToolFailed, match=r"unsquashfs failed: .*image"):
        read_back(find_programs(), tmp_path / "image", Tree(folder=tmp_path), EPOCH)

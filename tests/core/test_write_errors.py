"""Test the messages for failed writes, which name the full disk or the unreadable file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.disks import small_disk
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files import write, write_all
from uenvtool.core.files.atomic import write_error


def test_a_source_that_cannot_be_read_is_not_called_unwritable(place: Path) -> None:
    (place / "source").mkdir()
    (place / "source/gone").symlink_to("/nowhere")
    with pytest.raises(OSError, match="gone") as raised:
        shutil.copy2(place / "source/gone", place / "copy")

    told = str(write_error(place / "target/v", raised.value))

    assert f"cannot read {place}/source/gone: No such file" in told
    assert "name another path" not in told


def test_the_current_folder_is_named_by_its_path(place: Path) -> None:
    told = str(write_error(Path(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))

    assert told.startswith(f"error: cannot write {place}: No space left on device")


def test_a_parent_that_cannot_be_made_is_what_cannot_be_written(place: Path) -> None:
    error = OSError(errno.EROFS, os.strerror(errno.EROFS), "pipelines")

    told = str(write_error(Path("pipelines/hello/local-host"), error))

    assert told.startswith("error: cannot write pipelines: Read-only file system")


@pytest.mark.parametrize("name", ["file/below", "file/below/that", "link"])
def test_a_file_where_a_folder_must_be_is_bad_input(place: Path, name: str) -> None:
    (place / "file").touch()
    (place / "link").symlink_to("nowhere")

    with pytest.raises(BadInput) as raised:
        write_all(place / name, [("x", "text")])

    assert str(raised.value).startswith(
        f"error: {place}/{name.partition('/')[0]} is not a directory\nhint: name another"
    )


def test_a_read_only_disk_is_named_where_a_record_is_kept(place: Path) -> None:
    with small_disk(place / "disk", "500k") as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

        with pytest.raises(ToolFailed, match="is mounted read-only: name another path"):
            write_all(disk, [("r", "w"), ("a", "a"), ("r", "d")])


def test_a_file_that_may_not_be_read_is_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").write_text("old")

    def refused(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refused)
        write(place / "file", "new")

    assert (place / "file").read_text() == "new"

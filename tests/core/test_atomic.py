"""Test that files are written completely or not at all, with their permissions, and that writers take turns."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files import atomic
from uenvtool.core.files.atomic import locked, take_lock, write, write_all

STRAY = f".left.abc{atomic.STAGED_SUFFIX}"


BEFORE, AFTER = [("record", "both")], [("record", "new")]
"""What a record says before the files are touched, and when all is done."""


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own(place: Path) -> None:
    for name in ("new", "kept"):
        if name != "new":
            (place / name).write_text("old")
            (place / name).chmod(0o701)
        write(place / name, "text")
        write_all(place, [(name, "once more")])

    assert [oct(mode(place / name)) for name in ("new", "kept")] == ["0o644", "0o701"]
    atomic.set_shared_mode(place / "kept")
    assert oct(mode(place / "kept")) == "0o644"
    for refused in (atomic.set_shared_mode, atomic.sync):
        with pytest.raises(ToolFailed, match="cannot write"):
            refused(place / "nothing")
    assert os.umask(0o022) == 0o022


def test_a_file_that_is_right_is_not_touched_and_those_behind_it_are_written(place: Path) -> None:
    (place / "a").write_text("same")
    before = (place / "a").stat()

    write_all(place, [("a", "same"), ("deep/er/b", "new")])

    assert (place / "a").stat().st_ino == before.st_ino
    assert (place / "deep/er/b").read_text() == "new"


@contextmanager
def least_files() -> Iterator[None]:
    """Lets no file have more than a page: a larger one is refused when it is written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("before", ["old", "both", "new", None])
def test_a_write_that_fails_leaves_the_old_files_and_their_record_and_no_folder(
    place: Path, before: str | None
) -> None:
    if before:
        (place / "record").write_text(before)

    with least_files(), pytest.raises(ToolFailed, match=r"File too large\nhint: nothing was changed"):
        write_all(place, [*BEFORE, ("a", "new"), ("deep/er/b", "x" * 5000), *AFTER])

    assert [(path.name, path.read_text()) for path in place.iterdir()] == ([("record", before)] if before else [])
    write_all(place, [*BEFORE, ("a", "new"), *AFTER])
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a": "new", "record": "new"}


def test_names_that_a_disk_refuses_are_said_and_the_record_stays(place: Path) -> None:
    """As btrfs does where a quota is spent: the files are on disk, and get no names."""
    (place / "b").mkdir()

    for last in ("new", None):
        with pytest.raises(
            ToolFailed, match=r"cannot write .*/b: Is a directory\nhint: some files may already be replaced"
        ):
            write_all(place, [*BEFORE, ("a", str(last)), ("b", last), *AFTER])

    assert {path.name: path.read_text() for path in place.iterdir() if path.is_file()} == {
        "a": "None",
        "record": "both",
    }


def test_files_are_replaced_and_removed_and_the_record_says_which(place: Path) -> None:
    for name in ("a", "old", "record", "gone/x"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("old")
    gone = ("old", "gone/x", "never/was")

    write_all(place, [*BEFORE, *((name, None) for name in gone), ("a", "new"), *AFTER], emptied=["gone/x"])

    assert sorted(path.name for path in place.iterdir()) == ["a", "record"]
    assert [(place / name).read_text() for name in ("a", "record")] == ["new", "new"]


def test_of_two_writers_one_is_refused_and_readers_share(place: Path) -> None:
    shared = locked(place / "v", shared=True), locked(place / "v", shared=True)
    with shared[0], shared[1], pytest.raises(ToolFailed, match="in use"), locked(place / "v"):
        pass
    holder = f"`ps -fp {os.getpid()}`"
    with locked(place / "v"):
        for shared in (False, True):
            with pytest.raises(ToolFailed, match=f"in use(?s:.*){holder}"), locked(place / "v", shared=shared):
                pass
    assert not (place / "v").exists()


def test_one_that_waits_gets_the_lock_when_the_other_is_done(place: Path) -> None:
    ended: list[str] = []

    def waiting() -> None:
        with locked(place, wait=True):
            ended.append("second")

    with locked(place):
        thread = threading.Thread(target=waiting)
        thread.start()
        thread.join(0.2)
        ended.append("first")
    thread.join()

    assert ended == ["first", "second"]


@pytest.mark.parametrize("below", [True, False])
def test_a_writer_removes_what_a_killed_one_left_and_a_reader_does_not(place: Path, below: bool) -> None:
    (place / "deep").mkdir()
    for folder in (place, place / "deep"):
        (folder / STRAY).touch()
        (folder / "mine").touch()

    with locked(place, shared=True, below=below):
        assert (place / STRAY).exists()
    with locked(place, below=below):
        pass

    assert [(folder / STRAY).exists() for folder in (place, place / "deep")] == [False, not below]
    assert (place / "mine").exists()
    assert (place / "deep/mine").exists()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_filesystem_without_locks_is_used_without(place: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)  # there is none here
    with locked(place):
        pass


def test_another_fault_of_a_lock_is_not_taken_for_a_lock(place: Path) -> None:
    descriptor = os.open(place, os.O_PATH)  # which can be held, and neither read nor locked

    with pytest.raises(OSError, match="Bad file descriptor"):
        take_lock(descriptor, place)
    os.close(descriptor)


def test_what_is_no_folder_cannot_be_locked(place: Path) -> None:
    (place / "file").touch()
    (place / "link").symlink_to("nowhere")

    for name in ("file", "link"):
        with pytest.raises(BadInput, match="is not a directory"), locked(place / name):
            pass


def test_folders_that_were_made_are_given_from_the_outside(place: Path) -> None:
    made: list[Path] = []
    atomic.make_folders(place / "a/b/c", made)

    assert made == [place / "a", place / "a/b", place / "a/b/c"]
    (place / "a/mine").touch()
    atomic.remove_empty(made)
    assert [path.name for path in (place / "a").iterdir()] == ["mine"]

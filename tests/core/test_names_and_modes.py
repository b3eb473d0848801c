"""Test the names and modes of the files that uenvtool writes, and the PATH of the programs that it starts."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.needs import skip_without
from uenvtool.core import files, session

JOB = ("job", "--system", "clariden", "--account", "a", "--image", "u")


@pytest.mark.parametrize("length", [230, 251, 255])
def test_a_file_may_have_the_longest_name(place: Path, length: int) -> None:
    path = place / ("a" * length)

    for text in ("one", "two"):
        files.write(path, text)
        with files.workplace(path) as work:
            (work / "new").write_text(text)

    assert path.read_text() == "two"
    assert [*place.iterdir()] == [path]


def test_a_long_name_can_be_forced_twice(cli: Cli, place: Path) -> None:
    path = place / ("a" * 252 + ".sh")
    command = (*JOB, "-o", path, "--force", "--", "python", "train.py")
    assert cli(*command).code == 0
    path.write_text("mine")

    assert cli(*command).code == 0
    assert [other.read_text() for other in place.glob("*.before")] == ["mine"]


@pytest.mark.parametrize("length", [230, 255])
def test_a_file_that_a_cache_also_has_may_have_the_longest_name(place: Path, length: int) -> None:
    target, cached = place / "target", place / ("a" * length)
    target.mkdir(mode=0o755)
    cached.write_text("one")
    cached.chmod(0o600)
    with files.workplace(target) as work:
        (work / "new").mkdir()
        os.link(cached, work / "new" / cached.name)
        files.publish([files.Replacement(new=work / "new", target=target)])

    (published,) = target.iterdir()
    assert published.name == cached.name
    assert [path.stat().st_mode & 0o777 for path in (published, cached)] == [0o644, 0o600]


def test_files_are_readable_and_writable_whatever_the_umask_is(cli: Cli, place: Path) -> None:
    before = os.umask(0o777)
    try:
        assert cli(*JOB, "-o", "new/job.sh", "--", "python", "train.py").code == 0
    finally:
        os.umask(before)

    written = [*place.rglob("*")]
    assert written
    assert all(path.stat().st_mode & 0o600 == 0o600 for path in written)


USER, GROUP, MASK, OTHERS, NAMED, NOBODY = 1, 4, 16, 32, 2, 0xFFFFFFFF


def access_list(named: int) -> bytes:
    """Return an access control list for the owner and the user 54321. The group and others have no permission."""
    entries = ((USER, 7, NOBODY), (NAMED, named, 54321), (GROUP, 0, NOBODY), (MASK, 7, NOBODY), (OTHERS, 0, NOBODY))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def permissions(path: Path) -> dict[int, int]:
    """Return the permissions in the access control list of a file by the tag of the entry."""
    content = os.getxattr(path, "system.posix_acl_access")
    return {tag: granted for tag, granted, _ in struct.iter_unpack("<HHI", content[4:])}


@pytest.fixture
def listed(place: Path) -> Path:
    """Return a directory with an access control list."""
    folder = place / "listed"
    folder.mkdir()
    try:
        os.setxattr(folder, "system.posix_acl_access", access_list(5))
    except OSError:
        skip_without("a filesystem with access control lists", "run the tests on ext4, XFS or btrfs")
    return folder


def test_a_replaced_file_keeps_its_access_control_list(listed: Path) -> None:
    path = listed / "file"
    path.write_text("one")
    os.setxattr(path, "system.posix_acl_access", access_list(6))

    files.write(path, "two")

    assert path.read_text() == "two"
    assert permissions(path) == {USER: 7, NAMED: 6, GROUP: 0, MASK: 7, OTHERS: 0}


def test_a_new_file_gets_the_access_control_list_of_its_directory(listed: Path) -> None:
    os.setxattr(listed, "system.posix_acl_default", access_list(6))
    old = listed / "old"
    old.write_text("one")
    os.removexattr(old, "system.posix_acl_access")
    old.chmod(0o600)

    files.write(listed / "new", "one")
    files.write(old, "two")

    assert permissions(listed / "new") == {USER: 6, NAMED: 6, GROUP: 0, MASK: 6, OTHERS: 0}
    assert old.stat().st_mode & 0o777 == 0o600
    assert "system.posix_acl_access" not in os.listxattr(old)


def test_a_replaced_directory_keeps_its_access_control_list(listed: Path) -> None:
    with files.workplace(listed) as work:
        (work / "new").mkdir()
        (work / "new/program").write_text("")
        (work / "new/program").chmod(0o755)
        (work / "new/text").write_text("")
        files.publish([files.Replacement(new=work / "new", target=listed)])

    assert permissions(listed) == permissions(listed / "program") == {USER: 7, NAMED: 5, GROUP: 0, MASK: 7, OTHERS: 0}
    assert permissions(listed / "text") == {USER: 6, NAMED: 4, GROUP: 0, MASK: 6, OTHERS: 0}


@pytest.mark.parametrize(
    "path", [":/usr/bin", "/usr/bin:", "/usr/bin::/usr/bin", ".:/usr/bin", "./a:/usr/bin", "b:/usr/bin"]
)
def test_path_has_no_entry_of_the_current_directory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)

    session.make_safe()

    assert set(os.environ["PATH"].split(":")) == {"/usr/bin"}


@pytest.mark.parametrize("path", ["", ":", "."])
def test_an_empty_path_becomes_the_default(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)

    session.make_safe()

    assert os.environ["PATH"] == os.defpath

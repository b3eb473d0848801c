"""Test the names and modes of the files that uenvtool writes, and the PATH of the programs that it starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Cli
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


@pytest.mark.parametrize(
    "path", [":/usr/bin", "/usr/bin:", "/usr/bin::/usr/bin", ".:/usr/bin", "./a:/usr/bin", "b:/usr/bin"]
)
def test_path_has_no_entry_of_the_current_directory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)

    session.leave_out_relative_paths()

    assert set(os.environ["PATH"].split(":")) == {"/usr/bin"}


@pytest.mark.parametrize("path", ["", ":", "."])
def test_an_empty_path_becomes_the_default(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)

    session.leave_out_relative_paths()

    assert os.environ["PATH"] == os.defpath

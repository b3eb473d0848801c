"""Test directories of generated files: other files are never changed, and the next run completes a killed run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.trees import snapshot
from uenvtool.core import files
from uenvtool.core.errors import AnswerIsNo, BadInput
from uenvtool.core.files.generated import RECORD, Record, check_generated, digest


def generate(folder: Path, contents: dict[str, str], *, force: bool = False) -> None:
    with files.locked(folder):
        files.refuse_foreign(folder, contents, force=force)
        files.write_generated(folder, contents)


def test_what_the_inputs_give_no_more_is_removed_with_its_folders(place: Path) -> None:
    generate(place, {"a": "1", "packages/x/package.py": "2"})

    generate(place, {"a": "3"})

    assert snapshot(place) == {"a": b"3", RECORD: Record(files={"a": digest("3")}).text().encode()}


@pytest.mark.parametrize(
    "name", ["../victim", "/etc/victim", "a/../../victim", "./a", "a//b", ".", "", RECORD, "a/", "a\0b"]
)
def test_a_name_that_leaves_the_folder_is_refused(place: Path, name: str) -> None:
    folder, victim = place / "env", place / "victim"
    folder.mkdir()
    victim.write_text("x")
    (folder / RECORD).write_text(json.dumps({"files": {name: digest("x")}}))

    with pytest.raises(BadInput, match="not a valid record"):
        generate(folder, {"b": "1"}, force=True)

    assert victim.read_text() == "x"
    assert os.listdir(folder) == [RECORD]


@pytest.mark.parametrize("link", ["packages", "packages/x"])
def test_nothing_is_removed_or_written_through_a_symlink(place: Path, link: str) -> None:
    outside = place / "outside"
    (outside / "x").mkdir(parents=True)
    (outside / "p.py").write_text("2")
    (outside / "x" / "p.py").write_text("2")
    folder = place / "env"
    generate(folder, {"packages/x/p.py": "2"})
    (folder / "packages/x/p.py").unlink()
    (folder / "packages/x").rmdir()
    if link == "packages":
        (folder / "packages").rmdir()
    (folder / link).symlink_to(outside)

    for contents in ({"a": "1"}, {"packages/x/p.py": "3"}):
        with pytest.raises(BadInput, match="symlink"):
            generate(folder, contents, force=True)

    assert (outside / "p.py").read_text() == (outside / "x" / "p.py").read_text() == "2"


def test_a_file_that_was_changed_is_replaced_by_force_alone_and_never_removed(place: Path) -> None:
    generate(place, {"a": "old"})
    (place / "a").write_text("mine")

    for contents, force, told in (
        ({"a": "new"}, False, "has been changed since"),
        ({"b": "new"}, False, "has been changed since"),
        ({"b": "new"}, True, "move or delete this file"),
    ):
        with pytest.raises(BadInput, match=told):
            generate(place, contents, force=force)
        assert (place / "a").read_text() == "mine"

    generate(place, {"a": "new"}, force=True)
    assert (place / "a").read_text() == "new"


@pytest.mark.parametrize("kind", ["file", "folder", "dangling symlink", "pipe"])
def test_what_the_tool_did_not_make_is_never_replaced(place: Path, kind: str) -> None:
    path = place / "env" / "a"
    path.parent.mkdir()
    make = {
        "file": Path.touch,
        "folder": Path.mkdir,
        "dangling symlink": lambda path: path.symlink_to("nowhere"),
        "pipe": os.mkfifo,
    }
    make[kind](path)
    before = os.lstat(path)

    with pytest.raises(BadInput):
        generate(path.parent, {"a": "new"}, force=True)

    assert os.lstat(path).st_ino == before.st_ino
    assert os.listdir(path.parent) == ["a"]


WRONG_RECORDS = (
    *("", "5", "[]", "{", '"files"', "[" * 100_000),
    *('{"files": 5}', '{"files": null}', '{"files": ["a"]}', '{"files": {"a": 5}}', '{"files": {"a": null}}'),
    *('{"files": {}, "writing": 5}', '{"files": {}, "writing": {"../x": "y"}}'),
)


@pytest.mark.parametrize("text", WRONG_RECORDS, ids=range(len(WRONG_RECORDS)))
def test_a_record_of_wrong_types_is_bad_input_with_its_place(place: Path, text: str) -> None:
    (place / RECORD).write_text(text)

    with pytest.raises(BadInput, match=r"not a valid record|nested too deeply") as found:
        generate(place, {"a": "1"})

    assert found.value.problems[0].position is not None
    assert found.value.problems[0].position.file.endswith(RECORD)


def test_an_empty_folder_of_a_killed_run_is_no_leftover(place: Path) -> None:
    record = Record(files={"a": digest("1")}, writing={"a": digest("2"), "b/c/d": digest("3")})
    (place / "b/c").mkdir(parents=True)
    (place / "a").write_text("2")
    (place / RECORD).write_text(record.text())

    generate(place, {"a": "1"})

    assert snapshot(place) == {"a": b"1", RECORD: Record(files={"a": digest("1")}).text().encode()}


def drift(folder: Path, **more: Sequence[str]) -> str:
    with pytest.raises(AnswerIsNo) as found:
        check_generated(folder, {"a": "one\ntwo\n", "b/c": "three\n"}, again="make it", **more)
    return str(found.value)


def test_the_same_bytes_are_no_drift_and_a_run_that_did_not_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / RECORD).write_text(Record(files={"a": digest("one\n"), "gone": digest("")}).text())

    check_generated(tmp_path, {"a": "one\n"}, again="make it")
    (tmp_path / RECORD).write_text(Record(writing={"a": digest("one\n")}).text())
    with pytest.raises(AnswerIsNo, match="an earlier run that wrote here did not finish"):
        check_generated(tmp_path, {"a": "one\n"}, again="make it")


def test_a_drift_is_a_diff_with_what_makes_it_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\nzwei")

    said = drift(tmp_path, strays=["old"], remarks=["the lock is old"])

    assert "-zwei\n" in said
    assert f"--- {tmp_path}/a (as it is)\n" in said
    assert "+two\n" in said
    assert f"--- /dev/null\n+++ {tmp_path}/b/c (from its inputs)\n" in said
    assert "the lock is old\n" in said
    assert f"{tmp_path}/old is left over from an earlier run" in said
    assert said.endswith("hint: generate it again with `make it`")
    assert drift(tmp_path / "none") == f"error: {tmp_path}/none does not exist\nhint: create it with `make it`"


@pytest.mark.parametrize("content", [b"one\ntwo", b"one\r\ntwo\r\n", b"\xff", b""])
def test_any_other_bytes_are_a_drift(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)

    assert f"{tmp_path}/a" in drift(tmp_path)

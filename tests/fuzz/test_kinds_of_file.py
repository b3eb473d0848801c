"""Test pipes, devices and directories instead of files: every command rejects them immediately."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.kills import command
from tests.support.samples import sampled
from uenvtool.core.session import loaded_views

COMMANDS = """
image show X | image verify X | diff X X | image sbom X | show X | venv v --from X
venv v --no-base -r X | check X | validate X | diff hello X | show ./X
"""
OF_JOBS = """
doctor X | doctor --log X | job -s clariden -A a --image u -o X -- true | activate -s clariden --venv X
job -s clariden -A a --image X -- true | job -s clariden -A a --image u --venv X -- true
"""
CASES = [case.strip() for line in COMMANDS.strip().splitlines() for case in line.split(" | ")]
CASES_OF_JOBS = [case.strip() for line in OF_JOBS.strip().splitlines() for case in line.split(" | ")]
EMPTY_IS_FINE = {"venv v --no-base -r X"}
KINDS = [
    "pipe.squashfs",
    "/dev/zero",
    "/dev/null",
    "/proc/kmsg",
    "folder.squashfs",
    "loop.squashfs",
    "gone.squashfs",
    "empty.squashfs",
]
KINDS += ["pipe.yaml", "folder.yaml"]


@pytest.mark.parametrize("line", CASES)
def test_what_is_no_file_is_told_and_does_not_hang(cli: Cli, place: Path, no_base: None, line: str) -> None:
    for name in ("pipe.squashfs", "pipe.yaml"):
        os.mkfifo(place / name)
    for name in ("folder.squashfs", "folder.yaml"):
        (place / name).mkdir()
    (place / "loop.squashfs").symlink_to("loop.squashfs")
    (place / "empty.squashfs").write_text("")
    for kind in KINDS:
        if (kind.startswith("/") and "./X" in line) or (kind == "empty.squashfs" and line in EMPTY_IS_FINE):
            continue
        answer = cli(*shlex.split(line.replace("X", kind)))

        assert_is_an_answer(answer, (line, kind))
        assert answer.code == 2, (line, kind, answer.stderr)
        assert ("no such file" in answer.stderr) <= kind.startswith(("gone", "folder", "loop")), (
            line,
            kind,
            answer.stderr,
        )
        assert not any(path.name in ("v", "out") for path in place.iterdir())


@pytest.mark.parametrize("line", CASES_OF_JOBS)
def test_what_may_be_a_folder_or_new_is_no_pipe_and_no_device(cli: Cli, place: Path, line: str) -> None:
    os.mkfifo(place / "pipe")
    for kind in ("./pipe", "/dev/null", "/proc/kmsg"):
        answer = cli(*shlex.split(line.replace("X", kind)))

        assert_is_an_answer(answer, (line, kind))
        assert answer.code == 2, (line, kind, answer.stderr)


@pytest.mark.parametrize("name", ["uenvtool.json", "pylock.toml", "image", "files.json"])
@pytest.mark.parametrize("kind", sampled(["pipe", "folder", "device"]))
def test_what_is_no_file_in_an_overlays_records_does_not_hang(cli: Cli, place: Path, name: str, kind: str) -> None:
    folder = place / "v" / ".uenvtool"
    folder.mkdir(parents=True)
    (place / "v" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    make = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}
    make[kind](folder / name)

    for words in (["show", "v"], ["venv", "v", "small", "--no-base", "--dry-run"], ["venv", "v", "--update"]):
        answer = cli(*words)

        assert_is_an_answer(answer, (words, name, kind))
        assert answer.code == 2, (words, answer.stderr)


@pytest.mark.slow
def test_pipes_in_a_loaded_image_do_not_hang(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mount/meta/env.json", "mount/env/v/pyvenv.cfg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    monkeypatch.setenv("UENV_VIEW", f"{tmp_path}/mount:u:v")

    assert [view.name for view in loaded_views(os.environ)] == ["v"]
    assert cli("list").code == 0
    assert cli("activate", "--system", "clariden").code == 0


@pytest.mark.slow
def test_a_script_to_check_comes_from_a_pipe() -> None:
    script = "#!/bin/bash\nsrun true\n"

    done = subprocess.run(command("check", "/dev/stdin"), input=script, capture_output=True, text=True, check=False)

    assert done.returncode in (0, 1), done.stderr

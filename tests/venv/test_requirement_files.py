"""Test that requirement files work as in pip and uv: streams, relative paths, and nested files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support.overlays import project, wheel
from tests.venv.conftest import record
from uenvtool.core.errors import BadInput
from uenvtool.venv.requirements import parse, read_request


@pytest.fixture
def small(wheels: Path, no_base: None) -> Path:
    return wheel(wheels, "small", "1.0")


def piped(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uenvtool", "venv", "v", "--no-base", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", ["/dev/stdin", "-"])
def test_requirements_come_from_a_pipe_and_its_options_count(
    small: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")

    answer = piped(f"--find-links {small.parent}\nsmall\n", "-r", name, "--dry-run")

    assert answer.returncode == 0, answer.stderr
    assert "small    1.0      installed  /dev/stdin:2" in answer.stdout


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_pipe_is_told(text: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)

    with pytest.raises(BadInput, match="standard input has no requirements"):
        read_request([], [f"/dev/fd/{reading}"], [])
    os.close(reading)


@pytest.mark.parametrize("line", ["-r pipe", "-r /dev/null", "-c /dev/zero", "-r ."])
def test_what_is_no_file_is_told_and_does_not_hang(write: Write, line: str) -> None:
    os.mkfifo("pipe")
    write("r.txt", f"small\n{line}\n")

    with pytest.raises(BadInput, match=r"r.txt:2:1: .*(a directory|not a regular file)"):
        read_request([], ["r.txt"], [])


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("files/loose-1.0-py3-none-any.whl", "loose @ file://{here}/files/loose-1.0-py3-none-any.whl"),
        ("loose @ file:./files/loose-1.0-py3-none-any.whl", "loose @ file://{here}/files/loose-1.0-py3-none-any.whl"),
        ("./my proj", "mine @ file://{here}/my%20proj"),
        ("-e ./my proj", "-e file://{here}/my%20proj"),
        ("-e file://{here}/my%20proj", "-e file://{here}/my%20proj"),
    ],
)
def test_a_path_in_a_file_counts_from_the_current_folder(write: Write, place: Path, line: str, text: str) -> None:
    """As pip and uv have it; also when the file lies elsewhere."""
    wheel(Path("files"), "loose", "1.0")
    project(place / "my proj", "mine")
    write("sub/r.txt", line.format(here=place) + "\n")

    request = read_request([], ["sub/r.txt"], [])

    assert [wanted.text for wanted in request.requirements] == [text.format(here=place)]
    assert parse(request.requirements[0].recorded).text == text.format(here=place)


@pytest.mark.parametrize(
    ("files", "row"),
    [
        ({"r.txt": "-r b.txt\n-r b.txt\n", "b.txt": "small\n-r r.txt\n"}, ["small", "1.0", "installed", "b.txt:1"]),
        (
            {"r.txt": "-r sub/r.txt\n", "sub/r.txt": "--find-links beside\nloose\n"},
            ["loose", "1.0", "installed", "sub/r.txt:2"],
        ),
    ],
)
def test_files_that_name_themselves_are_read_once_and_find_links_lies_beside_its_file(
    small: Path, done: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], row: list[str]
) -> None:
    if "sub/r.txt" in files:
        monkeypatch.delenv("PIP_FIND_LINKS")
    wheel(Path("sub/beside"), "loose", "1.0")
    for name, text in files.items():
        write(name, text)

    answer = done("venv", "v", "--no-base", "-r", "r.txt", "--dry-run")

    assert row in [line.split() for line in answer.stdout.splitlines()]


def test_paths_in_a_file_are_shown_installed_and_made_again(small: Path, done: Cli, write: Write) -> None:
    wheel(Path("files"), "loose", "1.0")
    project(Path("my proj"), "mine")
    write("sub/r.txt", "./files/loose-1.0-py3-none-any.whl\n-e ./my proj\n")

    dry = done("venv", "v", "--no-base", "--dry-run", "-r", "sub/r.txt").stdout
    done("venv", "v", "--no-base", "-r", "sub/r.txt")
    done("venv", "v", "--no-base", "small")  # of the record
    done("venv", "w", "--no-base", "--from", "v/.uenvtool/pylock.toml")

    assert "loose    1.0      installed  sub/r.txt:1" in dry
    assert "sub/r.txt:2" in dry
    for overlay in ("v", "w"):
        assert [package["name"] for package in record(overlay)["packages"]] == ["loose", "mine", "small"]

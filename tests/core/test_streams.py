"""Test output streams that are closed, full, or have another encoding, and the exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL
from tests.support.samples import pairwise, sampled

UENVTOOL = [sys.executable, "-m", "uenvtool"]


def sh(line: str, place: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash, in which $UENVTOOL is the program."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "UENVTOOL": " ".join(UENVTOOL), **environment}
    return subprocess.run(["bash", "-c", line], cwd=place, env=env, capture_output=True, check=False)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full", "| true"])
def test_work_is_done_with_outputs_that_take_nothing(place: Path, redirection: str) -> None:
    done = sh(f"set -o pipefail; $UENVTOOL build hello --no-concretize -o env {redirection}", place)

    assert done.returncode == 0
    assert b"rror" not in done.stderr
    assert sorted(path.name for path in (place / "env").iterdir()) == [".uenvtool.json", "spack.yaml"]


ANSWERS = ("--version", "--help", "list", "list --json", "schema recipe", "activate --system rcp")


@pytest.mark.parametrize("words", ANSWERS)
def test_an_answer_that_cannot_be_written_is_an_error(place: Path, words: str) -> None:
    done = sh(f"$UENVTOOL {words} > /dev/full", place)

    assert done.returncode == 4
    assert done.stderr.startswith(b"error: cannot write the result to standard output: No space left on device\nhint: ")


@pytest.mark.parametrize(
    ("words", "redirection"), pairwise(ANSWERS, [">&-", "| true", "| head -c 1 > /dev/null"], each=1)
)
def test_a_reader_that_is_not_there_or_leaves_is_no_error(place: Path, words: str, redirection: str) -> None:
    done = sh(f"set -o pipefail; $UENVTOOL {words} {redirection}", place)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", sampled(["ascii:strict", "utf-8:strict", "ascii", "latin-1:strict"]))
def test_any_encoding_of_the_terminal_shows_any_text(place: Path, encoding: str) -> None:
    (place / "recipes" / "mine").mkdir(parents=True)
    text = SMALL.replace("A small recipe.", "Für Kühe \U0001f404")
    (place / "recipes" / "mine" / "recipe.yaml").write_text(text, encoding="utf-8")
    folder = place / os.fsdecode(b"n\xff\xc3\xbc")
    folder.mkdir()

    for words in (
        "list",
        "list --json",
        "show mine",
        "build mine --no-concretize -o $'n\\xff\\xc3\\xbc/env'",
        "nonsensé",
    ):
        done = sh(f"$UENVTOOL {words}", place, PYTHONIOENCODING=encoding)

        assert done.returncode == (2 if words == "nonsensé" else 0), done.stderr
        assert b"Error" not in done.stderr
    assert (folder / "env" / "spack.yaml").is_file()


def test_a_script_is_the_same_bytes_in_any_encoding(place: Path) -> None:
    line = "$UENVTOOL activate --system clariden --venv $'/scratch/\\xff\\xc3\\xbc'"

    scripts = {sh(line, place, PYTHONIOENCODING=name).stdout for name in ("ascii", "utf-8:strict", "latin-1")}

    assert len(scripts) == 1
    assert b"/scratch/\xff\xc3\xbc" in scripts.pop()

"""Test that each shell and format reads back the values that are written."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import dotenv
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.activation.test_undo import AWKWARD, TEXT
from tests.support import toml
from tests.support.shells import ALL, run
from uenvtool.activation.activate import text
from uenvtool.core import quoting
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.settings import settings_for

VALUES = st.one_of(AWKWARD, TEXT)
HOSTILE = "a b'c\"d$(touch ran)`touch ran`\n!x${HOME}\\é}@name@"


@pytest.mark.parametrize("shell", ALL)
@settings(max_examples=20)
@given(value=VALUES)
def test_a_quoted_value_comes_back(shell: str, value: str) -> None:
    quoted = quoting.sh(value).replace("\nSNAP", "\n SNAP")

    ran = run(shell, f"export V={quoted}\nSNAP\n")

    assert ran.snaps[0][b"V"] == value.encode()


@given(value=VALUES)
def test_toml_gives_a_value_back(value: str) -> None:
    assert toml.loads(f"V = {quoting.toml(value)}")["V"] == value


@given(value=VALUES)
def test_dotenv_and_shell_give_a_value_back(value: str) -> None:
    try:
        line = f"V={quoting.dotenv('V', value)}\n"
    except BadInput:
        assume(False)

    assert dotenv.dotenv_values(stream=io.StringIO(line))["V"] == value
    assert run("bash", f"set -a\n{line}SNAP\n").snaps[0][b"V"] == value.encode()


@pytest.mark.parametrize(
    ("refused", "values"),
    [
        (quoting.docker, ["a\nb", "a\rb"]),
        (quoting.dotenv, ["it's", "a\\b", "${HOME}", "a\rb"]),
        (quoting.edf, ["${HOME}"]),
    ],
)
def test_what_a_format_cannot_hold_is_refused(refused: Callable[[str, str], str], values: list[str]) -> None:
    for value in values:
        with pytest.raises(BadInput):
            refused("V", value)


@pytest.mark.parametrize("shell", ALL)
def test_a_hostile_path_of_an_overlay_is_data(shell: str, tmp_path: Path) -> None:
    venv = tmp_path / HOSTILE
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch(mode=0o755)
    script = tmp_path / "script"
    script.write_text(text(settings_for("clariden", venv=str(venv)), shell.partition("-")[0], "a command"))

    ran = run(shell, f"source {script}\nSNAP\nuenvtool_deactivate\nSNAP\n", {"UENVTOOL_QUIET": "1"})

    assert ran.snaps[0][b"VIRTUAL_ENV"] == str(venv).encode()
    assert ran.snaps[0][b"PATH"].startswith(f"{venv}/bin:".encode())
    assert b"VIRTUAL_ENV" not in ran.snaps[1]
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize("shell", ALL)
def test_a_hostile_command_in_the_header_stays_a_comment(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    again = f"uenvtool\ntouch {tmp_path}/ran\r$(touch x)"
    script.write_text(text(settings_for("clariden"), shell.partition("-")[0], again))

    ran = run(shell, f"source {script}\nSNAP\n", {"UENVTOOL_QUIET": "1"})

    assert ran.code == 0
    assert not (tmp_path / "ran").exists()


def test_json_holds_any_path() -> None:
    data = json.loads(text(settings_for("clariden", venv=HOSTILE), "json", "a command"))

    assert data["venv"] == HOSTILE


def test_a_dotenv_file_sourced_by_bash_sets_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text(text(settings_for("olivia", form="dotenv"), "dotenv", "a command"))

    out = subprocess.run(["bash", "-c", 'set -a; . "$0"; env -0', file], capture_output=True, check=True, env={})

    assert b"\0NCCL_NET=AWS Libfabric\0" in b"\0" + out.stdout


def test_a_comment_is_one_line_and_its_letters_stay() -> None:
    assert quoting.comment("a\nb\u2028é\x1b[1m\rc") == "a b é [1m c"
    assert quoting.comment("plain é") == "plain é"

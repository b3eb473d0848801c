"""What a new user meets: `uenvtool` alone, --help, completion in the shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.conftest import ROOT, Cli
from uenvtool import __version__
from uenvtool.cli import COMMANDS, application, contexts


def test_the_version_is_a_line(cli: Cli) -> None:
    assert cli("--version").stdout == f"uenvtool {__version__}\n"


def test_help_lists_every_command_by_its_reader_in_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = cli("--help").stdout.splitlines()

    group: Any = typer.main.get_command(application())
    for name, command in COMMANDS.items():
        assert group.get_command(None, name).name == name
        assert any(line.split(maxsplit=1) == [name, command.sentence] for line in lines), name
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("context", list(contexts()), ids=lambda context: context.command_path)
def test_help_fits_a_narrow_terminal_with_every_word_whole(monkeypatch: pytest.MonkeyPatch, context: Any) -> None:
    context.terminal_width = None
    monkeypatch.setenv("COLUMNS", "80")
    wide = context.get_help()
    monkeypatch.setenv("COLUMNS", "40")

    narrow = context.get_help()

    assert narrow.split() == wide.split()
    too_long = [line for line in narrow.splitlines() if len(line.rstrip()) > 40]
    assert all(re.search(r"^ *(`.*`|\S+|--\S+ \S+)$", line) for line in too_long), too_long


@pytest.mark.parametrize(
    ("environment", "first", "second"),
    [
        ({"UENV_VIEW": "/user-environment:pytorch:default"}, "The uenv pytorch is loaded", "uenvtool list systems"),
        ({"CLUSTER_NAME": "clariden"}, "that has your PyTorch", "This machine is clariden"),
        ({"APPTAINER_CONTAINER": "/images/a.sif"}, "the container /images/a.sif", "none of"),
        ({}, "that has your PyTorch", "none of"),
    ],
)
def test_alone_it_says_what_is_here_and_the_command_for_each_thing_to_do(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], first: str, second: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    answer = cli()

    lines = answer.stdout.splitlines()
    assert (answer.code, answer.stderr) == (0, "")
    assert first in lines[0]
    assert second in lines[1]
    assert [line[18:].partition(" ")[2] for line in lines[2:]] == [
        "venv .venv PACKAGE",
        f"job {'--account' if 'CLUSTER_NAME' in environment else '--system'} NAME -- python train.py",
        "job check train.sh",
        "build pytorch-2.6",
        "--help",
    ]


def test_a_login_node_is_told_to_name_an_image_in_80_columns(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "uenv").touch(0o755)
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setenv("CLUSTER_NAME", "clariden")

    lines = cli().stdout.splitlines()

    assert lines[0] == "No uenv is loaded."
    assert lines[2].endswith("uenvtool venv .venv PACKAGE --uenv IMAGE")
    assert lines[3].endswith("uenvtool job --account NAME --image IMAGE -- python train.py")
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("build --system cl", ["clariden"]),
        ("build pytorch-2.", ["pytorch-2.6", "pytorch-2.9"]),
    ],
)
def test_the_shell_completes_values(line: str, completed: list[str]) -> None:
    words = ["uenvtool", *line.split()]
    env = {"_UENVTOOL_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}

    done = subprocess.run(
        [sys.executable, "-m", "uenvtool"],
        env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert set(completed) <= set(done.stdout.split())


@pytest.mark.parametrize("words", [["build", "hello", "--colour"], ["bild"], ["build"], ["explain", "--system"]])
def test_a_wrong_command_line_is_an_error_with_a_hint(cli: Cli, words: list[str]) -> None:
    answer = cli(*words)
    of = f" {words[0]}" if words[0] != "bild" else ""

    assert answer.code == 2
    assert answer.stderr.startswith("error: ")
    assert f"`uenvtool{of} --help` shows what it takes" in answer.stderr.partition("hint: ")[2]


def test_debug_shows_the_traceback_and_keeps_the_exit_code(cli: Cli) -> None:
    answer = cli("--debug", "build", "nosuch")

    assert answer.code == 2
    assert "Traceback" in answer.stderr
    assert answer.stderr.rstrip().splitlines()[-2].startswith("error: unknown recipe 'nosuch'")


def test_a_group_alone_lacks_a_command_and_its_help_has_each_sentence_whole(cli: Cli) -> None:
    alone, helped = cli("image"), cli("image", "--help")

    assert (alone.code, alone.stderr.splitlines()[0]) == (2, "error: Missing command")
    assert "..." not in helped.stdout.replace("[ARGS]...", "")

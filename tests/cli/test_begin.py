"""What a new user meets: `uenvtool` alone, --help, completion in the shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
        ({"CLUSTER_NAME": "clariden"}, "venv .venv PACKAGE", "This machine is clariden"),
        ({"APPTAINER_CONTAINER": "/images/a.sif"}, "the container /images/a.sif", "--system NAME"),
        ({}, "venv .venv PACKAGE", "--system NAME"),
    ],
)
def test_alone_it_says_in_three_lines_where_to_begin(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], first: str, second: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    answer = cli()

    lines = answer.stdout.splitlines()
    assert (answer.code, len(lines), answer.stderr) == (0, 3, "")
    assert first in lines[0]
    assert second in lines[1]
    assert "uenvtool --help" in lines[2]


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

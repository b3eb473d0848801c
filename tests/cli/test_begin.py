"""Test the first steps of a new user: `uenvtool` without arguments, --help, and completion in the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.conftest import ROOT, Cli
from uenvtool import __version__
from uenvtool.cli import COMMANDS, READERS, contexts


def test_help_lists_every_command_by_its_reader_in_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = cli("--help").stdout.splitlines()
    assert cli("--version").stdout == f"uenvtool {__version__}\n"

    words = " ".join(" ".join(lines).replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split())
    assert all(f"\N{BOX DRAWINGS LIGHT HORIZONTAL} {reader} " in words for reader in READERS)
    assert [name for name, command in COMMANDS.items() if f" {name} {command.summary}" not in words] == []
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("context", list(contexts()), ids=lambda context: context.command_path)
def test_help_of_each_command_has_every_option_and_its_whole_text(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, context: typer.Context
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wide = " ".join(cli(*context.command_path.split()[1:], "--help").stdout.split())
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli(*context.command_path.split()[1:], "--help").stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert [line for line in lines if "\N{HORIZONTAL ELLIPSIS}" in line] == [], "a word is cut"
    for parameter in context.command.params:
        assert all(any(name in line for line in lines) for name in parameter.opts if name.startswith("-"))
        assert (getattr(parameter, "help", None) or "") in wide, "rich takes words in brackets for marks of its own"


def test_the_help_of_job_has_groups_and_first_what_everybody_needs(cli: Cli) -> None:
    first, *groups = (
        cli("job", "--help").stdout.partition("Options")[2].split("\N{BOX DRAWINGS LIGHT ARC DOWN AND RIGHT}")
    )

    assert all(f" --{name} " in first for name in ("recipe", "nodes", "time", "account", "output"))
    assert [group.split("\N{BOX DRAWINGS LIGHT HORIZONTAL}")[1].strip() for group in groups] == [
        "Where it runs", "The image", "What runs", "Slurm", "Advanced", "Pods",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "first", "second"),
    [
        ({"UENV_VIEW": "/user-environment:pytorch:default"}, "The uenv pytorch is loaded", "uenvtool list systems"),
        ({"CLUSTER_NAME": "clariden"}, "that contains your PyTorch", "This machine is clariden"),
        ({"APPTAINER_CONTAINER": "/images/a.sif"}, "the container /images/a.sif", "not a known system"),
        ({}, "that contains your PyTorch", "not a known system"),
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
        "check train.sh",
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
        ("activate --runtime a", ["apptainer"]),
        ("activate --shell do", ["dotenv"]),
        ("job --workaround cx", ["cxil-map"]),
        ("explain NCCL_NET_P", ["NCCL_NET_PLUGIN"]),
        ("container ngc-pytorch-25", ["ngc-pytorch-25.06"]),
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


def test_debug_shows_the_traceback_and_keeps_the_exit_code(cli: Cli) -> None:
    answer = cli("--debug", "build", "nosuch")

    assert answer.code == 2
    assert "Traceback" in answer.stderr
    assert answer.stderr.rstrip().splitlines()[-2].startswith("error: unknown recipe 'nosuch'")

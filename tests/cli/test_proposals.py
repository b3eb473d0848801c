"""Test that the commands in knowledge texts are valid commands of uenvtool."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer

from tests.conftest import ROOT
from uenvtool.cli import app

QUOTED = re.compile(r"`(uenvtool [^`]*)`")
KNOWLEDGE = ("recipes", "knowledge")


def proposed() -> Iterator[str]:
    """The command lines that are proposed by knowledge."""
    for folder in KNOWLEDGE:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            yield from QUOTED.findall(path.read_text())


def test_each_proposed_command_is_one() -> None:
    lines = sorted(set(proposed()) - {"uenvtool --help"})

    assert len(lines) > 10
    assert {line: reason for line in lines if (reason := refusal(line))} == {}


def refusal(line: str) -> str:
    """Why the program would not take this command line; empty if it would."""
    try:
        parse(line)
    except typer.TyperException as error:
        return str(error)
    return ""


def parse(line: str) -> None:
    """Let the program read a command line, as far as it is one. Raises TyperException if it is none."""
    command: Any = typer.main.get_command(app)
    name, *words = (word for word in shlex.split(line.replace("FILE...", "FILE")) if word != "...")
    context = command.make_context(name, list(words))
    while hasattr(command, "resolve_command") and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(context, words)
        if words:  # else the sentence names the command, and proposes nothing
            context = command.make_context(name, list(words), parent=context)

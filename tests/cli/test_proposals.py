"""What a message or a file that ships proposes to type is a command line of this program, and can be copied whole."""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from tests.conftest import ROOT
from uenvtool.cli import COMMANDS, UsageError, application, contexts

MADE = re.compile(rf"\buenvtool (?:{'|'.join(COMMANDS)})\b")
QUOTED = re.compile(r"`(uenvtool [^`]*)`")
NOT_TOLD = {"uenvtool/venv/scripts/hook.py"}
"""What Python itself prints at its start, which goes through no console."""
KNOWLEDGE = (
    "recipes", "systems", "sites", "tuning", "runtimes", "launchers", "rules", "findings", "containers", "components",
)  # fmt: skip


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a module, X in place of what is filled in, without what documents it."""
    tree = ast.parse(path.read_text())
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in passed:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


SOURCES = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "uenvtool").rglob("*.py"))}


@functools.cache
def told() -> dict[str, tuple[str, ...]]:
    """The texts of each module that is told through the console; read when a test asks, not by each worker."""
    return {name: tuple(texts_of(path)) for name, path in SOURCES.items() if name not in NOT_TOLD}


def proposed() -> Iterator[str]:
    """The command lines that are proposed, by modules, knowledge and the texts of --help."""
    for texts in told().values():
        for text in texts:
            yield from QUOTED.findall(text)
    for folder in KNOWLEDGE:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            yield from QUOTED.findall(path.read_text())


def is_bare(text: str) -> bool:
    """Tell if a command stands in a sentence as any other word of it does."""
    outside = QUOTED.sub("", text)
    found = MADE.search(outside)
    return found is not None and re.search(r"(?:[:;,.]|(?<! )\() ?$|\w $", outside[: found.start()]) is not None


def test_a_command_in_a_sentence_is_quoted_so_that_a_terminal_breaks_no_line_in_it() -> None:
    assert [(name, text) for name, texts in told().items() for text in texts if is_bare(text)] == []


def test_no_line_of_a_help_ends_within_a_command() -> None:
    paragraphs = [part for context in contexts() for part in context.get_help().split("\n\n")]

    assert [found for part in paragraphs for found in re.findall(r"`[^`]*`", part) if "\n" in found] == []


def test_each_proposed_command_is_one() -> None:
    lines = sorted(set(proposed()) - {"uenvtool --help"})

    assert len(lines) > 50
    assert {line: reason for line in lines if (reason := refusal(line))} == {}


def refusal(line: str) -> str:
    """Why the program would not take this command line; empty if it would."""
    try:
        parse(line)
    except UsageError as error:
        return str(error)
    return ""


def parse(line: str) -> None:
    """Let the program read a command line, as far as it is one. Raises UsageError if it is none."""
    command: Any = typer.main.get_command(application())
    name, *words = (word for word in shlex.split(line.replace("FILE...", "FILE")) if word != "...")
    context = command.make_context(name, list(words))
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name, *words = words
        command = command.get_command(context, name)
        if command is None:
            raise UsageError(name)
        if words:  # else the sentence names the command, and proposes nothing
            context = command.make_context(name, list(words), parent=context)

"""Test that the commands that texts name exist, with their options: in knowledge, in messages and in docstrings."""

from __future__ import annotations

import ast
import functools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from tests.conftest import ROOT
from uenvtool.cli import COMMANDS, contexts
from uenvtool.knowledge.kinds import KINDS, Kind
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.yamltree import read

SPAN = re.compile(r"`([^`]+)`")


@functools.cache
def options() -> dict[str, set[str]]:
    """Return the options of each command and group, by its name with `uenvtool`."""
    return {
        context.command_path: {
            "-h",
            "--help",
            *(name for param in context.command.params for name in (*param.opts, *param.secondary_opts)),
        }
        for context in contexts()
    }


def wrong_words(command: str) -> Iterator[str]:
    """Yield the subcommands and options of a command line that uenvtool does not have."""
    words = shlex.split(command.replace("'", "").replace('"', ""))
    name = "uenvtool"
    groups = {path.rpartition(" ")[0] for path in options()}
    for word in words[1 : words.index("--") if "--" in words else None]:
        if word.startswith("-"):
            if word.partition("=")[0] not in options()[name]:
                yield word
        elif name in groups and word.islower():
            if f"{name} {word}" not in options():
                yield word
                return
            name += f" {word}"


def commands_in(text: str) -> Iterator[str]:
    """Yield the commands of uenvtool in a text, which are in backquotes."""
    yield from (span for span in SPAN.findall(text) if re.match(r"uenvtool( |$)", span))


def commands_of_shell(text: str) -> Iterator[str]:
    """Yield the commands of uenvtool in a line for the shell."""
    yield from (part for part in re.split(r"[;&|>()]+ *", text) if part.startswith("uenvtool "))


def problems(form: str, text: str) -> Iterator[str]:
    """Yield the problems of the commands in a text of a format of the schemas, `command` or `prose`."""
    for command in commands_of_shell(text) if form == "command" else commands_in(text):
        yield from (f"{word} in {command}" for word in wrong_words(command))
    if form == "prose":
        bare = re.search(rf"\buenvtool ({'|'.join(COMMANDS)})\b", SPAN.sub("", text))
        if bare:
            yield f"{bare[0]} is not in backquotes"


@pytest.mark.parametrize(
    ("form", "text", "found"),
    [
        ("prose", "Run `uenvtool job --nccl-test`, or `uenvtool image verify IMAGE`.", []),
        ("prose", "Run `uenvtool job -- train.py --lr 1`, as `uenvtool --help` says. `uenvtool` reads it.", []),
        ("prose", "uenvtool leaves them to the hook", []),
        ("prose", "run `uenvtool atach ID`", ["atach in uenvtool atach ID"]),
        ("prose", "run `uenvtool image chek x`", ["chek in uenvtool image chek x"]),
        ("prose", "run `uenvtool job --nccl`", ["--nccl in uenvtool job --nccl"]),
        ("prose", "run `uenvtool explain X --wide=2`", ["--wide=2 in uenvtool explain X --wide=2"]),
        ("prose", "run uenvtool check --fix", ["uenvtool check is not in backquotes"]),
        ("command", "uenvtool activate > x && uenvtool venv PATH --now", ["--now in uenvtool venv PATH --now"]),
        ("command", "export A=1; uenvtool doctor", []),
    ],
)
def test_wrong_commands_in_a_text_are_found(form: str, text: str, found: list[str]) -> None:
    assert list(problems(form, text)) == found


def formatted(kind: Kind, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the format and the text of each field of a file that has a format in the schema of its kind."""
    found: list[tuple[str, str]] = []

    def record(_validator: Any, form: str, text: Any, _schema: Any) -> None:
        if isinstance(text, str):
            found.append((form, text))

    schema = json.loads(schema_text(kind.name))
    list(extend(Draft202012Validator, {"format": record})(schema).iter_errors(read(path, path.name).plain()))
    yield from found


def shipped(kind: Kind) -> list[Path]:
    return sorted(path for top in ("knowledge", ".") for path in (ROOT / top / kind.directory).glob(kind.pattern))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_commands_in_knowledge_exist(kind: Kind) -> None:
    texts = [(path.name, form, text) for path in shipped(kind) for form, text in formatted(kind, path)]

    assert texts
    wrong = [(name, problem) for name, form, text in texts for problem in problems(form, text)]
    assert wrong == []


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts of a module, with NAME for each value that is filled in."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "NAME" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_commands_in_messages_and_docstrings_exist() -> None:
    modules = sorted((ROOT / "uenvtool").rglob("*.py"))
    commands = {(path.name, command) for path in modules for text in texts_of(path) for command in commands_in(text)}

    assert len(commands) > 50
    assert [(name, command) for name, command in sorted(commands) if any(wrong_words(command))] == []

"""What is refused: tables of words, exit code, and the part of the message that carries the fact.

A row of tests/refusals/ROOM.yaml:

    - case: a recipe that nobody has            # says what is wrong, in a reader's words
      words: build pytorch-2.66 -s clariden     # as in a shell, without `uenvtool`; a list: each is refused like this
      files: {recipes/a/recipe.yaml: "..."}     # what lies in the current folder first; a value may be a list of lines
      env: {NAME: value}                        # variables; null takes one away
      base: pythonpath                          # a stand-in for a loaded base, see tests/support/bases.py; or none
      has: [torch 2.6.0]                        # what that base has: NAME VERSION REQUIREMENT...
      wheels: [light 1.0 torch>=2]              # what an index has, in the same form; with a base, these alone
      sources: [heavy 3.0 torch]                # what it has as source: NAME VERSION MODULE, which the build imports
      first: [build a --no-concretize]          # commands that have to succeed before
      code: 1                                   # as in `uenvtool --help`; 2 if it is not said
      says: ["unknown recipe", "hint: ..."]     # parts of stderr: place, name, the command of the hint
      hides: ["..."]                            # what stderr does not say

Whatever is refused, nothing is on stdout, and the current folder is as it was: nothing made, changed or half written.
`small` stands for the recipe SMALL of conftest.py where a file has that word alone as its content, and SMALL as a line.
What begins with `#!` is a program, and bin/ is first on PATH: a stand-in for a real one, or what an option names.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, SMALL, Cli, Loaded, Write
from tests.support.overlays import extension_source, install, wheel
from tests.support.trees import snapshot

TABLES = sorted((ROOT / "tests" / "refusals").glob("*.yaml"))
KEYS = {"case", "words", "files", "env", "base", "has", "wheels", "sources", "first", "code", "says", "hides"}


def rows() -> list[Any]:
    found = []
    for table in TABLES:
        for row in yaml.safe_load(table.read_text()):
            assert row.keys() <= KEYS, row
            found.append(pytest.param(row, id=f"{table.stem}: {row['case']}"))
    return found


def content(value: str | bytes | list[str]) -> str | bytes:
    if value == "small":
        return SMALL
    return "\n".join(value).replace("SMALL", SMALL.rstrip()) + "\n" if isinstance(value, list) else value


def made(folder: Path, packages: list[str]) -> list[Path]:
    split = (package.split() for package in packages)
    return [wheel(folder, name, version, requires=requires) for name, version, *requires in split]


@pytest.mark.parametrize("row", rows())
def test_refused(
    row: dict[str, Any],
    cli: Cli,
    write: Write,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if "base" in row:
        index = request.getfixturevalue("wheels")
        made(index, row.get("wheels", []))
        for source in row.get("sources", []):
            extension_source(index, *source.split())
        load: Loaded = request.getfixturevalue("loaded")
        if row["base"] != "none":
            install(load(row["base"]).site, *made(place.parent / "old", row.get("has", [])))
    for name, value in row.get("files", {}).items():
        text = content(value)
        write(name, text).chmod(0o755 if text[:2] == "#!" else 0o644)
    monkeypatch.setenv("PATH", f"{place}/bin", prepend=os.pathsep)
    for name, value in row.get("env", {}).items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, str(value))
    for words in row.get("first", []):
        assert cli(*shlex.split(words)).code == 0, words
    before = snapshot(place)

    for words in [row["words"]] if isinstance(row["words"], str) else row["words"]:
        answer = cli(*shlex.split(words))

        assert answer.code == row.get("code", 2), (words, answer.stderr)
        for part in row["says"]:
            assert part in answer.stderr
        for part in row.get("hides", []):
            assert part not in answer.stderr
        assert answer.stdout == ""
        assert snapshot(place) == before

"""Test errors from tables with the arguments, the exit code, and the facts that the message must contain.

A row of tests/refusals/PACKAGE.yaml:

    - case: a recipe that nobody has            # describes the error for a reader
      words: build pytorch-2.66 -s clariden     # arguments of uenvtool, as in a shell; a list tests several commands
      files: {recipes/a/recipe.yaml: "..."}     # files in the current directory; a value may be a list of lines
      env: {NAME: value}                        # variables; null removes a variable
      base: pythonpath                          # a stand-in for a loaded base (tests/support/bases.py), or none
      has: [torch 2.6.0]                        # the packages of this base: NAME VERSION REQUIREMENT...
      wheels: [light 1.0 torch>=2]              # the packages of an index, in the same form; with a base, only these
      sources: [heavy 3.0 torch]                # its source packages: NAME VERSION MODULE, which the build imports
      first: [build a --no-concretize]          # commands that must succeed before
      code: 1                                   # as in `uenvtool --help`; the default is 2
      says: ["unknown recipe", "hint: ..."]     # parts of stderr: position, name, the command of the hint
      hides: ["..."]                            # text that stderr must not contain

After an error, stdout must be empty, and the current directory must be unchanged. A file with the content `small`
contains the recipe SMALL of conftest.py, and a line SMALL is replaced by this recipe. A file that begins with `#!` is a
program, which is a stand-in for a real program or the value of an option. bin/ is first on PATH.
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

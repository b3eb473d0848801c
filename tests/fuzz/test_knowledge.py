"""Recipes, systems, tunings, ...: files of every kind of knowledge, damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, Answer
from tests.fuzz.mutation import damaged_lines
from tests.fuzz.verdict import assert_is_an_answer
from uenvtool.model.kinds import KINDS, Kind

COUNT = 30
Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]


def shipped(kind: Kind) -> list[Path]:
    return sorted((ROOT / kind.folder).glob(kind.pattern), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_damaged_file_is_accepted_or_told(cli: Cli, write: Write, kind: Kind) -> None:
    path = shipped(kind)[len(shipped(kind)) // 2]
    for text in damaged_lines(path.read_text(), COUNT, seed=1):
        file = write(kind.file("mine"), text.encode(errors="surrogatepass"))

        answer = cli("validate", file)

        assert_is_an_answer(answer, text)
        if answer.code == 2:
            assert "mine" in answer.stderr or path.stem in answer.stderr, text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "content",
    [
        "",
        "a: [",
        "- 1\n",
        "x\n",
        "{" * 20_000,
        "a: " + "[" * 20_000,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
        "".join(f"k{number}: 1\n" for number in range(20_000)),
        "description: \x1b[31m\n",
        b"\xff\xfe\x00",
        "description: a\0b\n",
        "description: x\nruntimes: []\n",
        "extends: mine\n",
        "extends: [mine, mine]\n",
        f"extends: {'x' * 300}\n",
        'require: {"a: b": "1"}\n',
        f"require: {{zlib: '{'9' * 5000}'}}\n",
    ],
    ids=lambda content: repr(content)[:24],
)
def test_what_once_broke_something_is_told(cli: Cli, write: Write, kind: Kind, content: str | bytes) -> None:
    answer = cli("validate", write(kind.file("mine"), content))

    assert_is_an_answer(answer, content)
    assert answer.code == 2


def test_files_of_others_never_stand_in_the_way(cli: Cli, write: Write) -> None:
    for name, text in {"deep.yaml": "[" * 20_000, "odd\nname.yaml": "x", "list.yaml": "- 1\n"}.items():
        write(f"systems/{name}", text)

    for words in (["list"], ["build", "pytorch-2.6", "--dry-run"], ["activate", "--system", "clariden"]):
        assert cli(*words).code == 0, words

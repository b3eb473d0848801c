"""Test damaged knowledge files of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from tests.fuzz.mutation import damaged_lines
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.samples import pairwise, sampled
from uenvtool.knowledge.kinds import KINDS, Kind


def shipped(kind: Kind) -> list[Path]:
    return sorted((ROOT / kind.shipped).glob(kind.pattern), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("seed", sampled(range(1, 6)))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_damaged_file_is_accepted_or_told(cli: Cli, write: Write, kind: Kind, seed: int) -> None:
    path = shipped(kind)[len(shipped(kind)) // 2]
    for text in damaged_lines(path.read_text(), 6, seed):
        file = write(kind.file("mine"), text.encode(errors="surrogatepass"))

        answer = cli("validate", file)

        assert_is_an_answer(answer, text)
        if answer.code == 2:
            assert "mine" in answer.stderr or path.stem in answer.stderr, text


ONCE = [
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
]
"""Files that once gave something unexpected."""


@pytest.mark.parametrize(
    ("content", "kind"),
    pairwise(ONCE, KINDS),
    ids=lambda value: value.name if isinstance(value, Kind) else repr(value)[:24],
)
def test_what_once_broke_something_is_told(cli: Cli, write: Write, kind: Kind, content: str | bytes) -> None:
    answer = cli("validate", write(kind.file("mine"), content))

    assert_is_an_answer(answer, content)
    assert answer.code == 2


OF_OTHERS = {"deep.yaml": "[" * 20_000, "odd\nname.yaml": "x", "list.yaml": "- 1\n", "half.yaml": "x: [\n"}
UNNAMED = """
list | build pytorch-2.6 --dry-run | activate --system clariden | activate --write -o out | explain NCCL_NET
list rules | explain --system clariden | doctor --log job.log | check job.sh
schema tuning | container ngc-pytorch-25.06 --dry-run | validate mine.yaml | diff pytorch-2.6 pytorch-2.9 | show hello
job --system clariden --account a --image u -- python train.py
"""
"""Command lines that name no file of the current folder's."""


@pytest.mark.parametrize("line", [line for row in UNNAMED.strip().splitlines() for line in row.split(" | ")])
def test_files_of_others_never_stand_in_the_way(cli: Cli, write: Write, line: str) -> None:
    write("job.sh", "#!/bin/bash\nsrun --ntasks=1 true\n")
    os.utime(write("job.log", "all is well\n"), (0, 0))  # doctor prints the age of a log that may still grow
    write("mine.yaml", SMALL)
    expected = cli(*line.split())
    assert expected.code in (0, 1), expected.stderr
    for folder in {kind.directory for kind in KINDS}:
        for name, text in OF_OTHERS.items():
            write(f"{folder}/{name}", text)
            write(f"{folder}/of-{Path(name).stem}/{folder[:-1]}.yaml", text)

    answer = cli(*line.split())

    assert answer.code == expected.code, answer.stderr
    assert answer.stdout == expected.stdout or line.startswith("list")


@pytest.mark.parametrize(
    ("kind", "shipped_name", "words"),
    [
        ("tuning", "slingshot", "explain NCCL_NET"),
        ("rules", "slurm", "check job.sh"),
        ("findings", "nccl", "doctor --log job.log"),
    ],
)
def test_a_file_that_is_left_out_is_told_and_the_one_that_it_hides_counts(
    cli: Cli, write: Write, kind: str, shipped_name: str, words: str
) -> None:
    write("job.sh", "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    os.utime(write("job.log", "NCCL WARN Error: remote process exited\n"), (0, 0))
    expected = cli(*words.split())
    write(f"{kind}/{shipped_name}.yaml", "x: [\n")

    answer = cli(*words.split())

    assert answer.code == expected.code, answer.stderr
    assert answer.stdout == expected.stdout
    assert f"ignored: {kind}/{shipped_name}.yaml:2:1: not valid YAML" in answer.stderr
    named = cli("validate", f"{kind}/{shipped_name}.yaml")
    assert named.code == 2
    assert f"{kind}/{shipped_name}.yaml:2:1: not valid YAML" in named.stderr


@pytest.mark.parametrize(("kind", "name"), [("rules", "slurm"), ("findings", "nccl")])
def test_a_copy_beside_what_ships_is_left_out_and_validate_says_why(
    cli: Cli, write: Write, kind: str, name: str
) -> None:
    write("job.sh", "#!/bin/bash\nsrun --ntasks=1 true\n")
    write("job.out", "step 1\n")
    copy = write(f"{kind}/mine.yaml", (ROOT / "knowledge" / kind / f"{name}.yaml").read_text())

    assert cli("check", "job.sh").code in (0, 1)
    assert cli("doctor", "--log", "job.out").code in (0, 1)
    answer = cli("validate", copy)
    assert answer.code == 2
    assert f"is already defined at {ROOT}/knowledge/{kind}/{name}.yaml:" in answer.stderr
    assert "hint: choose another name for this entry" in answer.stderr


def test_a_copy_of_a_tuning_is_another_choice_and_no_contradiction(cli: Cli, write: Write) -> None:
    copy = write("tuning/mine.yaml", (ROOT / "knowledge/tuning/slingshot.yaml").read_text())

    assert cli("validate", copy).code == 0
    answer = cli("explain", "NCCL_NET")
    assert answer.code == 0, answer.stderr
    assert "tuning/mine.yaml" in answer.stdout


def test_sources_of_the_users_are_added_to_those_that_are_known(cli: Cli, write: Write) -> None:
    write("tuning/sources.yaml", "description: Ours.\nsources: {us: {title: Our page, date: 2026-01-01}}\n")

    assert cli("explain", "NCCL_NET").code == 0

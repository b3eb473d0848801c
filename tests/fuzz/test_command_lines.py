"""Test random command lines and environments."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.samples import sampled

VERBS = ["list", "show", "diff", "validate", "schema", "explain", "build", "activate", "job", "nosuch", ""]
OPTIONS = ["--system", "--recipe", "--json", "--check", "--dry-run", "-o", "--shell", "--uarch", "--squash", "--help"]
OPTIONS += ["--", "-", "--nosuch", "--runtime", "--nccl", "--fact", "--format", "--verbose", "-r", "--base", "--="]
WORDS = ["pytorch-2.6", "clariden", "nosuch", "/", "..", "/nonexistent/x", "-1", "a=b", "[x]", "é", "²", "gh200"]
WORDS += ["", " ", "a\nb", "\x1b[2J", "x" * 5000, "9" * 5000]


def command_lines(count: int, seed: int) -> list[list[str]]:
    chance = random.Random(seed)
    return [
        [
            chance.choice(VERBS),
            *(chance.choice(chance.choice([OPTIONS, WORDS])) for _ in range(chance.randrange(5))),
            "--dry-run",
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_any_command_line_is_answered(cli: Cli, place: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")  # no Spack, no uenv client, no uv of another installation
    for words in command_lines(40, seed):
        assert_is_an_answer(cli(*words), words, codes=(0, 1, 2, 3))


VARIABLES = {
    "UENV_VIEW": ["", ":", "a", "/x:y:z", ",,,", "/x:y:z\n", "\x1b", "é" * 300],
    "UENV_MOUNT_LIST": ["", ":", "x:/y", ","],
    "SLURM_JOB_ID": ["x", "-1", "²"],
    "COLUMNS": ["0", "-1", "x", "99999999"],
    "SOURCE_DATE_EPOCH": ["²", "-1", "x", "9" * 50, ""],
    "XDG_CONFIG_HOME": ["/nonexistent", "relative", "/dev/null", ""],
    "HOME": ["/nonexistent", "", "/dev/null"],
    "CLUSTER_NAME": ["x\ny", "../..", ""],
    "LC_ALL": ["C", "nosuch", "tr_TR.UTF-8"],
    "TERM": ["", "nosuch", "dumb"],
    "VIRTUAL_ENV": ["/nonexistent", "\n"],
    "SPACK_ROOT": ["/nonexistent", "/dev/null"],
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(18)))
def test_any_environment_is_answered(cli: Cli, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        chosen = {name: chance.choice(VARIABLES[name]) for name in chance.sample(list(VARIABLES), 3)}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in chosen.items():
                patch.setenv(name, value)
            for words in (["list"], ["explain", "NCCL_NET"], ["activate", "--system", "clariden"], ["show", "hello"]):
                assert_is_an_answer(cli(*words), (chosen, words))

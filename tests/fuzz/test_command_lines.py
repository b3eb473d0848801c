"""Command lines, requirements and environments that nobody means to give."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded, Write
from tests.fuzz.verdict import assert_is_an_answer
from tests.support.samples import sampled, share

VERBS = ["list", "show", "diff", "validate", "schema", "explain", "build", "activate", "venv", "job", "nosuch", ""]
OPTIONS = [
    "--system",
    "--recipe",
    "--json",
    "--check",
    "--dry-run",
    "-o",
    "--shell",
    "--uarch",
    "--squash",
    "--help",
    "--",
    "-",
]
OPTIONS += [
    "--nosuch",
    "--runtime",
    "--nccl",
    "--fact",
    "--format",
    "--verbose",
    "-r",
    "--base",
    "--from",
    "--=",
    "-h-",
]
WORDS = [
    "pytorch-2.6",
    "clariden",
    "nosuch",
    "",
    " ",
    "/",
    "..",
    "/nonexistent/x",
    "a\nb",
    "\x1b[2J",
    "é",
    "-1",
    "x" * 5000,
    "a=b",
    "[x]",
    "²",
    "gh200",
    "bash",
    "9" * 5000,
]


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
        if "venv" not in words[:1]:
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


@pytest.mark.parametrize("seed", sampled(range(3)))
def test_any_environment_is_answered(cli: Cli, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(share(12)):
        chosen = {name: chance.choice(VARIABLES[name]) for name in chance.sample(list(VARIABLES), 3)}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in chosen.items():
                patch.setenv(name, value)
            for words in (["list"], ["explain", "NCCL_NET"], ["activate", "--system", "clariden"], ["show", "hello"]):
                assert_is_an_answer(cli(*words), (chosen, words))


REQUIREMENTS = [
    "small",
    "small==1.0",
    "small>=0",
    "-r {self}",
    "-c {self}",
    "--hash=sha256:00",
    "-e .",
    "-e 'a b'",
    "# c",
    "\\",
]
REQUIREMENTS += [
    "a @ file:///nonexistent.whl",
    "./nonexistent.whl",
    "small ; python_version > '3'",
    "small ; (" + "(" * 200,
    "git+x",
]
REQUIREMENTS += [
    "--index-url",
    "--require-hashes",
    "small[",
    "small=1",
    "==1",
    "small @",
    "\0",
    "\x1b[31m",
    "é==1",
    "--frobnicate",
]
REQUIREMENTS += [
    "small==" + "9" * 5000,
    "$HOME",
    "${HOME}",
    "-r /dev/null",
    "-r .",
    "--no-binary :all:",
    "small --hash=sha256:zz",
]


@pytest.mark.parametrize("seed", sampled(range(2)))
def test_any_requirements_file_is_answered(loaded: Loaded, wheels: Path, cli: Cli, write: Write, seed: int) -> None:
    loaded("pythonpath")
    chance = random.Random(seed)
    for number in range(share(12)):
        lines = [chance.choice(REQUIREMENTS).replace("{self}", f"r{number}.txt") for _ in range(chance.randint(1, 3))]
        path = write(f"r{number}.txt", "\n".join(lines) + "\n")

        answer = cli("venv", "v", "-r", path, "--dry-run")

        assert_is_an_answer(answer, lines, codes=(0, 1, 2, 4))
        assert not Path("v").exists()

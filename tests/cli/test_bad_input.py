"""Test bad input of all kinds: exit code 2 (or 1, 3 or 4), the error, and the hint."""

from __future__ import annotations

import os
import random
import shlex
from pathlib import Path

import pytest
from typer.core import TyperOption

from tests.conftest import SMALL, Cli, Write
from uenvtool.cli import contexts

CONTENTS: dict[str, bytes] = {
    "deep.lock": b"[" * 100_000,
    "mapping.lock": b'{"a":' * 5_000,
    "types.lock": b'{"_meta": 5, "roots": "x", "concrete_specs": []}',
    "version.lock": b'{"roots": [], "concrete_specs": {}, "spack": 5}',
    "random.lock": random.Random(1).randbytes(100),
    "empty.lock": b"",
    "env/spack.lock": b"[" * 100_000,
    "published.yaml": b"source: 5",
    "list.yaml": b"- a\n",
    "open.yaml": b"a: [1,\n",
    "nul.yaml": b"a\0b\n",
    "latin.yaml": "description: é\n".encode("latin-1"),
    "recipes/mine/recipe.yaml": SMALL.encode(),
    "recipes/broken/recipe.yaml": b"description: [\n",
}
LINES = """
diff mine deep.lock | diff mine mapping.lock | diff mine types.lock | diff mine version.lock
diff mine random.lock | diff mine empty.lock | diff mine env | diff mine published.yaml | diff mine pipe.lock
diff mine / | diff mine loop | show '' | show . | show / | show loop | show ./loop | show /dev/null
show list.yaml | show nosuch | show recipes/x.yaml | validate '' | validate . | validate / | validate loop
validate pipe.lock | validate latin.yaml | validate /proc/self/mem | build '' | build / | build nosuch
build broken | build mine --repo x | build mine --repo x= | build mine -o deep.lock
build mine --repo builtin=/nonexistent | build mine --spack deep.lock | build mine -o deep.lock/x
build mine --uarch x | build mine --format x | build mine --check -o nowhere | build mine --system nosuch
build mine -o /proc/nowhere | activate --write -o deep.lock | activate --system rcp --shell x
activate --system rcp --fact a | activate --nccl '' | activate --system rcp --recipe x
activate --system rcp --workaround x | activate --check -o nowhere | activate x | explain nosuch | schema x | list x
edit mine
edit nosuch --add x | edit mine --add '' | edit mine --add '@1' | edit mine --add 'a b' | edit broken --add x
edit mine --pin '@1' | edit mine --pin a@ | edit mine --remove '' | edit mine --remove x | edit loop --add x
new recipe | new recipe mine | new recipe a/b | new recipe x --from nosuch | new system '' | new nosuch x
nosuch | --nosuch
"""
CASES = [case.strip() for line in LINES.strip().splitlines() for case in line.split(" | ")]


WAYS_OUT = {
    "build": "name one of `uenvtool list recipes`",
    "container --tag": "name a recipe (see `uenvtool list containers`)",
    "job check list.yaml": "put the program and its options after `--`",
    "build env": "to use the file or directory of that name, write ./env",
    "build nul.yaml": "delete the control character, or save the file as text",
    "build open.yaml": "close the `[` or `{` above",
    "validate empty.lock": "`uenvtool show clariden` (a system)",
    "build mine --spack deep.lock": "name the directory of a Spack checkout",
    "edit hello --remove nosuch": "known: pigz",
    "image build env": "name a directory with a spack.yaml and its spack.lock",
    "image build mine --mirror gone": "to create a mirror: `spack -e DIR mirror create --all -d MIRROR`",
    "image build mine --config-scope gone": "name a directory with files such as mirrors.yaml",
    "image build mine --post-install gone": "name an existing file",
    "image sbom empty/spack.lock": "run `uenvtool build RECIPE` to create it again",
    "container --from a:b --pip a==": "--pip metatrain",
    "job python train.py": "put the program and its options after `--`",
    "job --lr 3 -- python train.py": "put the program and its options after `--`",
    "check empty.lock": "pass the path of a batch script or EDF",
    "check --select x list.yaml": "`uenvtool list rules` lists them",
    "doctor env": "pass the logs in it",
    "doctor empty.lock": "pass the file that `scontrol show job ID` prints as StdOut",
    "venv v --group g": "add -r pyproject.toml",
    "venv v --view v": "--uenv IMAGE",
    "venv v --no-base ./deep.lock": "name a wheel, an archive or the directory of a project",
    "venv v --no-base -r nul.yaml": "name another file",
    "venv v --no-base --squash deep.lock/v.squashfs": "name another path, or move deep.lock away",
}


@pytest.mark.parametrize(("line", "way_out"), WAYS_OUT.items())
def test_the_hint_is_of_what_is_wrong_and_comes_before_any_work(
    cli: Cli, place: Path, write: Write, line: str, way_out: str
) -> None:
    for name, content in {**CONTENTS, "empty/spack.lock": b""}.items():
        write(name, content)

    answer = cli(*shlex.split(line))

    assert (answer.code, answer.stdout) == (2, "")
    assert way_out in answer.stderr.partition("\nhint: ")[2]
    assert not (place / "v").exists()


@pytest.mark.parametrize("line", [line for line in WAYS_OUT if line.startswith("image build")])
def test_bad_input_is_told_before_a_program_that_is_missing(
    cli: Cli, place: Path, write: Write, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    test_the_hint_is_of_what_is_wrong_and_comes_before_any_work(cli, place, write, line, WAYS_OUT[line])


@pytest.mark.parametrize("line", CASES)
def test_bad_input_is_told_with_a_way_out(cli: Cli, place: Path, write: Write, line: str) -> None:
    for name, content in CONTENTS.items():
        write(name, content)
    os.mkfifo(place / "pipe.lock")
    (place / "loop").symlink_to("loop")

    answer = cli(*shlex.split(line))

    assert answer.code in ((1, 4) if "/proc/nowhere" in line or "nowhere" in line else (2,))
    assert "hint: " in answer.stderr
    assert "please report" not in answer.stderr
    assert answer.stdout == ""


def single_options() -> list[tuple[str, list[str]]]:
    """Return each command with each of its options that has one value, given twice in different forms."""
    rows = []
    for context in contexts():
        for option in context.command.params:
            if isinstance(option, TyperOption) and not option.multiple and context.parent:
                long = max(option.opts, key=len)
                if option.secondary_opts:
                    rows.append((context.command_path, [long, option.secondary_opts[0]]))
                elif not option.is_flag:
                    rows.append((context.command_path, [f"{long}=1", option.opts[-1], "2"]))
    return rows


@pytest.mark.parametrize(("command", "words"), single_options(), ids=lambda value: " ".join(value).replace("/", " "))
def test_an_option_with_one_value_is_not_given_twice(cli: Cli, command: str, words: list[str]) -> None:
    answer = cli(*command.split()[1:], *words)

    assert answer.code == 2
    assert " is given 2 times\nhint: give --" in answer.stderr

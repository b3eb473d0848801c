"""Test that hostile or wrong files are rejected with their position before they use much time or memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import SMALL, Cli, Write
from tests.support.samples import sampled

TEXTS = {
    "deep flow list": "a: " + "[" * 20_000 + "]" * 20_000,
    "deep flow mapping": "a: " + "{b: " * 20_000,
    "deep block list": "- " * 20_000 + "x",
    "deep block mapping": "".join(f"{' ' * depth}a:\n" for depth in range(1_000)),
    "deep keys": "? " * 20_000 + "x",
    "aliases of aliases": "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 1}]\n" for i in range(12)),
    "many values": "a: [" + "1," * 101_000 + "]",
    "many unknown keys": "".join(f"k{i}: 1\n" for i in range(20_000)),
    "a number of 5,000 digits": SMALL.replace("link: all", "link: " + "9" * 5_000),
    "a NUL in a path": 'extends: "./a\\0b"\n',
    "a space in a package's name": SMALL + 'require: {"a: b": "1"}\n',
    "a newline in a package's name": SMALL + 'require: {"a\\nb": "1"}\n',
    "a newline behind a package's name": SMALL + 'require: {"a\\n": "1"}\n',
    "a newline behind the view's name": SMALL.replace("{link: all}", '{link: all, name: "a\\n"}'),
}


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_yaml_is_bad_input_with_its_place(cli: Cli, write: Write, name: str) -> None:
    path = write("recipes/bad/recipe.yaml", TEXTS[name])

    for words in (["validate", str(path)], ["build", "bad", "--no-concretize"]):
        answer = cli(*words)
        assert answer.code == 2, answer.stderr[-500:]
        assert "recipes/bad/recipe.yaml:" in answer.stderr
        assert "unexpected" not in answer.stderr
    assert not Path("envs").exists()


def test_a_version_of_many_digits_is_no_crash(cli: Cli, write: Write) -> None:
    for value in ("9" * 5_000, "1." * 5_000 + "1"):
        write("recipes/bad/recipe.yaml", SMALL.replace("hdf5@1.14", f"hdf5@{value}"))

        answer = cli("build", "bad", "--no-concretize")

        assert answer.code in (0, 2)
        assert "unexpected" not in answer.stderr


def test_what_is_no_file_is_told_to_whom_names_it(cli: Cli, place: Path) -> None:
    (place / "systems").mkdir()
    (place / "recipes/pipe").mkdir(parents=True)
    os.mkfifo(place / "recipes/pipe/recipe.yaml")
    os.mkfifo(place / "systems/pipe.yaml")
    (place / "systems/endless.yaml").symlink_to("/dev/zero")
    (place / "systems/gone.yaml").symlink_to("nowhere")
    no_file, gone = "this is not a regular file", "cannot read the file: No such file or directory"

    for arguments, message in {
        ("activate", "--system", "pipe"): f"systems/pipe.yaml:1:1: {no_file}\nhint: ",
        ("activate", "--system", "gone"): f"systems/gone.yaml:1:1: {gone}\nhint: ",
        ("build", "hello", "--system", "endless"): f"systems/endless.yaml:1:1: {no_file}\nhint: ",
        ("build", "pipe"): f"recipes/pipe/recipe.yaml:1:1: {no_file}\nhint: ",
    }.items():
        answer = cli(*arguments)
        assert (answer.code, answer.stderr[: len(message)]) == (2, message)


@pytest.mark.parametrize("name", sampled(["deep flow list", "aliases of aliases", "many unknown keys"], keep=2))
def test_a_file_that_merely_lies_in_systems_is_not_in_the_way(cli: Cli, write: Write, place: Path, name: str) -> None:
    write("systems/bad.yaml", TEXTS[name])
    os.mkfifo(place / "systems" / "pipe.yaml")

    for words in (["list"], ["build", "hello", "--no-concretize"], ["activate", "--system", "rcp"]):
        answer = cli(*words)
        assert answer.code == 0, answer.stderr[-500:]


def test_a_chain_of_many_files_is_refused(cli: Cli, write: Write) -> None:
    for number in range(500):
        write(f"recipes/r{number}/recipe.yaml", f"extends: r{number + 1}\n" if number < 499 else SMALL)

    answer = cli("build", "r0", "--no-concretize")

    assert answer.code == 2
    assert "the chain of `extends` is longer than" in answer.stderr


def test_a_file_that_is_extended_in_many_ways_is_read_once(cli: Cli, write: Write) -> None:
    for number in range(14):
        write(f"recipes/r{number}/recipe.yaml", f"extends: [r{number + 1}, s{number + 1}]\n")
        write(f"recipes/s{number}/recipe.yaml", f"extends: [r{number + 1}, s{number + 1}]\n")
    write("recipes/r14/recipe.yaml", SMALL)
    write("recipes/s14/recipe.yaml", SMALL)

    assert cli("validate", "recipes/r0").code == 0

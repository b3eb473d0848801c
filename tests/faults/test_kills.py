"""Test commands that are killed or interrupted at any time: files are complete, and the next run succeeds."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import SMALL, Loaded
from tests.faults import CASES
from tests.faults.server import Server, server
from tests.image.test_report import build_words
from tests.image.test_store import environment
from tests.support.needs import need
from tests.support.overlays import BaseHere, clean_environment, install, run, wheel
from tests.support.trees import files
from uenvtool.core.processes import INTERRUPTED
from uenvtool.env.installable import Installable

__all__ = ["environment"]
ENDS = {signal.SIGKILL: (-signal.SIGKILL, -signal.SIGALRM), signal.SIGINT: (INTERRUPTED, -signal.SIGINT)}
"""The exit codes of a run that was killed or interrupted."""
signals = pytest.mark.parametrize("sent", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
"""Runs a test with kills, and with --slow also with Ctrl-C."""
Words = list[str | Path]
Turn = Callable[[int], Words]
"""Changes the inputs for a round, and gives the words of the command that takes them in."""


def turns(running: Server, turn: Turn, whole: Callable[[], None], count: int, sent: signal.Signals) -> Iterator[int]:
    """Kill or interrupt a command in many rounds, and yield each round in which it ended. All files are whole then.

    Half of the signals come before a step, half a moment after one, such as in a program that the command started. An
    interrupted command leaves no temporary file.
    """
    chance = random.Random(count)
    assert running.run(turn(0))[0] == 0
    steps, done, number = len(running.steps(turn(1))), 0, 1
    while done < count:
        number += 1
        assert number < 20 * count, "it is hardly ever killed"
        delay = chance.choice((0.0, chance.uniform(0.0001, 0.05)))
        words = turn(number)
        code, told = running.run(words, kill=(chance.randint(1, steps), "/dev/null", delay, sent))
        assert code in (0, *ENDS[sent]), told
        whole()
        if code == INTERRUPTED:
            left = [path for path in strays(Path.cwd()) if not path.endswith("-install")]  # Spack continues there
            assert delay or left == []  # between two instructions, Ctrl-C can leave an empty directory
            assert "interrupted" in told
            assert "Traceback" not in told
        if code in ENDS[sent]:
            done += 1
            yield number


def ends_well(running: Server, words: Words) -> None:
    code, told = running.run(words)
    assert code == 0, told


def assert_recorded() -> None:
    """Nothing is in `out` but what its record names."""
    found = files("out")
    assert sorted(found) == sorted([".uenvtool.json", *json.loads(found[".uenvtool.json"])["files"]])


def strays(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob(".*uenvtool-*")]


@signals
def test_build(place: Path, sent: signal.Signals) -> None:
    recipe = place / "recipes/small/recipe.yaml"
    recipe.parent.mkdir(parents=True)

    def turn(number: int) -> Words:
        recipe.write_text(SMALL.replace("hdf5@1.14", f"hdf5@1.{number}"))
        return ["build", "small", "-o", "out", "--no-concretize"]

    def whole() -> None:
        assert (place / "out/spack.yaml").read_text().endswith("link: all\n")

    with server() as running:
        for number in turns(running, turn, whole, CASES or 3, sent):
            if number % 5 == 0:
                ends_well(running, turn(number))
                assert f"hdf5@1.{number} ".encode() in files("out")["spack.yaml"]
                assert_recorded()


@pytest.mark.slow
@signals
def test_edit(place: Path, sent: signal.Signals) -> None:
    recipe = place / "recipes/small/recipe.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(SMALL)

    def turn(number: int) -> Words:
        return ["edit", "small", "--pin", f"zlib@1.{number}"]

    def whole() -> None:
        found = recipe.read_text()
        assert found.startswith(SMALL)
        assert yaml.safe_load(found)["require"]["zlib"]

    with server() as running:
        for number in turns(running, turn, whole, CASES or 3, sent):
            if number % 5 == 0:
                ends_well(running, turn(number))
                assert yaml.safe_load(recipe.read_text())["require"]["zlib"] == f"1.{number}"
                assert strays(place) == []


@signals
def test_job(place: Path, sent: signal.Signals) -> None:
    def turn(number: int) -> Words:
        words = ["job", "--system", "clariden", "--runtime", "ce", "--account", "g123", "--image", f"a/b:{number}"]
        return [*words, "-o", "job.sh", "--", "python", "train.py", f"round{number}"]

    def together() -> None:
        if (place / "job.sh").exists():
            assert (place / "job.toml").exists()
            rounds = {name: re.findall(r"round\d+", (place / name).read_text()) for name in ("job.sh", "job.toml")}
            assert {*rounds["job.sh"]} == {*rounds["job.toml"]}, "the script of one run and the EDF of another"
            assert rounds["job.sh"], "the command is in neither"

    with server() as running:
        for number in turns(running, turn, together, CASES or 3, sent):
            if number % 5:
                continue
            ends_well(running, turn(number))
            assert f"a/b:{number}" in (place / "job.toml").read_text()
            assert sorted(path.name for path in place.iterdir()) == [".uenvtool.json", "job.sh", "job.toml"]


NOT_FIXED = '#!/bin/bash\n#SBATCH --nodes=2\nsrun bash -c "RANK=$SLURM_PROCID python train.py"\n'
OTHERS: dict[str, tuple[Words, Words]] = {
    "container": (
        ["container", "ngc-pytorch-25.06", "-o", "out"],
        ["container", "ngc-pytorch-26.02-alps4", "-o", "out"],
    ),
    "activate": (["activate", "--write", "-o", "out"],) * 2,
    "new": (["new", "recipe", "mine", "--from", "hello"],) * 2,
    "check": (["check", "--fix", "job.sh"],) * 2,
}


@pytest.mark.slow
@signals
@pytest.mark.parametrize("name", OTHERS)
def test_other_commands(name: str, place: Path, sent: signal.Signals) -> None:
    """The files of a record have recorded contents, and other files exist as before or as after a run."""
    (place / "systems").mkdir()
    kept: set[bytes] = set()

    def turn(number: int) -> Words:
        (place / "systems/mine.yaml").write_text(f"extends: rcp\ndescription: round {number % 2}\n")
        (place / "job.sh").write_text(NOT_FIXED)
        shutil.rmtree("recipes", ignore_errors=True)
        return OTHERS[name][number % 2]

    def whole() -> None:
        for path in (place / "job.sh", place / "recipes/mine/recipe.yaml"):
            if path.exists():
                kept.add(path.read_bytes())
        found = files("out") if (place / "out").exists() else {}
        record = json.loads(found.pop(".uenvtool.json", '{"files": {}}'))
        for path, text in found.items():
            known = (record["files"].get(path), record.get("writing", {}).get(path))
            assert path.endswith(".uenvtool-part") or hashlib.sha256(text).hexdigest() in known, path

    with server() as running:
        for number in turns(running, turn, whole, CASES or 3, sent):
            if number % 5 == 0:
                running.run(turn(number))
                assert strays(place) == []
    assert len(kept) <= 3, "a file that is neither old nor new"


@pytest.fixture
def torch_here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    """A base, and two versions of a package of some files."""
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
    for version in ("1.0", "2.0"):
        many = {f"big/part{part}.py": f"value = {part}\n" * 50 for part in range(40)}
        wheel(wheels, "big", version, files={**many, "big/__init__.py": f"__version__ = {version!r}\n"})
    return found


@pytest.mark.slow
@signals
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_venv(torch_here: BaseHere, place: Path, packed: bool, sent: signal.Signals) -> None:
    need("mksquashfs", "unsquashfs")
    import_all = "import big, big.part39, torch; print(big.__version__)"

    def turn(number: int) -> Words:
        return ["venv", "v", f"big=={1 + number % 2}.0", *(["--squash"] if packed else [])]

    def whole() -> None:
        here = clean_environment(**torch_here.environment)
        done = run([place / "v/bin/python", "-I", "-c", import_all], here)
        assert done.stdout.strip() in ("1.0", "2.0"), done.stderr

    with server() as running:
        for number in turns(running, turn, whole, CASES or (2 if packed else 3), sent):
            if packed:  # the image by itself is whole
                code, told = running.run(["show", "v.squashfs"])
                assert code == 0, told
            if number % 5 == 0:
                ends_well(running, turn(number))
                assert strays(place) == []
        ends_well(running, turn(0))
    assert {path.name for path in place.iterdir()} <= {"v", "v.squashfs", "v.previous", "v.previous.squashfs"}


@pytest.mark.slow
@signals
def test_image(environment: Installable, place: Path, sent: signal.Signals) -> None:
    """Packed from a store that is installed: a stand-in is Spack."""
    words: Words = [*build_words(environment, place)]
    images: set[bytes] = set()

    def turn(_: int) -> Words:
        return words

    def whole() -> None:
        images.add((place / "i.squashfs").read_bytes())

    with server() as running:
        for number in turns(running, turn, whole, CASES or 3, sent):
            if number % 5 == 0:
                ends_well(running, turn(number))
        ends_well(running, turn(0))
        ends_well(running, ["image", "verify", "i.squashfs"])
    assert len(images) == 1, "the same inputs, other bytes"
    beside = [".uenvtool.json", "i.squashfs.build.json", "i.squashfs.build.log"]
    assert sorted(path.name for path in place.iterdir()) == sorted(["i.squashfs", "spack", "store", *beside])

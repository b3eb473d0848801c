"""The table of kinds: each kind of file is known everywhere by its one row."""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.kinds import KINDS, PUBLISHED, RECIPE, SYSTEM, TUNING, Kind, kind_of
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.schema import SCHEMA_FOLDER
from uenvtool.knowledge.settings import ENVIRONMENTS
from uenvtool.knowledge.system import load_system
from uenvtool.knowledge.yamltree import parse


def test_each_schema_is_of_one_kind_and_each_kind_has_a_reader() -> None:
    assert {kind.name for kind in KINDS} == {path.stem for path in SCHEMA_FOLDER.glob("*.json")}
    for kind in KINDS:
        module, function = kind.reader.split(":")
        assert callable(getattr(importlib.import_module(module), function)), kind.name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_file_that_ships_is_of_the_kind_of_its_place_and_valid(kind: Kind, cli: Cli) -> None:
    files = sorted((ROOT / kind.shipped).glob(kind.pattern))

    answer = cli("validate", *files)

    assert files
    assert answer.code == 0, answer.stderr
    assert answer.stderr.count(": fine") == len(files)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("extends: pytorch-2.6\ndescription: mine\n", RECIPE),
        ("description: mine\nnodes: {}\nfabric: none\n", SYSTEM),
        ("description: mine\nvariables: {}\n", TUNING),
        ("source: somewhere\npython: []\n", PUBLISHED),
    ],
)
def test_a_file_in_no_known_folder_is_of_the_kind_that_knows_its_names(text: str, kind: Kind) -> None:
    assert kind_of(Path("x.yaml"), parse(text.encode(), "x.yaml")) is kind


def test_a_tuning_file_is_read_as_tuning_although_its_names_are_wrong(cli: Cli, write: Write) -> None:
    write("tuning/mine.yaml", "description: mine\nvariabels: {}\n")

    answer = cli("validate", "tuning/mine.yaml")

    assert answer.code == 2
    assert "tuning/mine.yaml:2:1: unknown key 'variabels'" in answer.stderr
    assert "did you mean 'variables'" in answer.stderr


def test_a_system_with_names_that_nobody_knows_is_refused_at_each(cli: Cli, write: Write) -> None:
    text = """\
description: ours
site: here
fabric: infiniband
runtimes: [aptainer]
tuning: [nvshmm]
nodes: {gh200: {target: neoverse-v2, os: rhel9}}
"""
    of_names = cli("validate", write("systems/ours.yaml", text)).stderr
    of_target = cli("validate", write("systems/ours.yaml", text.replace("apt", "appt").replace("shmm", "shmem"))).stderr

    assert "systems/ours.yaml:4:12: unknown runtime 'aptainer'" in of_names
    assert "systems/ours.yaml:5:10: unknown tuning 'nvshmm'" in of_names
    assert "systems/ours.yaml:6:25: unknown target 'neoverse-v2'" in of_target
    assert "did you mean 'neoverse_v2'" in of_target


def test_a_recipe_for_a_system_that_nobody_knows_is_refused_at_it(cli: Cli, write: Write) -> None:
    path = write("recipes/mine/recipe.yaml", "extends: hello\ndescription: mine\nhome: nowhere\nuarchs: [gh100]\n")

    assert "recipes/mine/recipe.yaml:3:7: unknown system 'nowhere'" in cli("validate", path).stderr
    unfit = cli("build", "mine", "--system", "clariden")
    assert unfit.stderr.endswith("add gh200 to `uarchs` in a recipe that extends it\n")


def test_the_users_own_file_of_each_kind_is_found_by_name(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("systems/mine.yaml", "extends: clariden\n")
    write("tuning/mine.yaml", "description: mine\n")

    assert all("mine" in available(kind) for kind in (RECIPE, SYSTEM, TUNING))


BUILT_IN = """description: a system
site: here
fabric: none
nodes: {cpu: {target: x86_64, os: sles15, cores: 4}}
runtimes: [none]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("description:", "descripton:", "unknown key 'descripton'"),
        ("fabric: none", "fabric: slingshott", "'slingshott' is not one of slingshot, roce"),
        ("[none]", "{a: [none]}", "runtimes: expected a list"),
        ("cores: 4", "cores: many", "cores: expected a whole number"),
    ],
)
def test_a_file_that_ships_and_was_changed_is_checked(
    right: str, wrong: str, message: str, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not checked each time; but what does not fit the values is, so that its problem has a place."""
    monkeypatch.setattr("uenvtool.knowledge.locate.data_root", lambda: place)
    write("systems/mine.yaml", BUILT_IN)
    write("runtimes/none.yaml", "description: nothing is loaded\n")
    assert load_system("mine").site == "here"

    write("systems/mine.yaml", BUILT_IN.replace(right, wrong))

    with pytest.raises(BadInput, match=message):
        load_system("mine")


def test_no_validator_is_loaded_for_files_that_ship() -> None:
    code = (
        "import sys, uenvtool.knowledge.checks as k; k.load_recipe('pytorch-2.6'); print('jsonschema' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_the_wheel_ships_every_folder_that_is_read_from_what_ships(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    shipped = set(zipfile.ZipFile(wheel).namelist())

    for folder in {*(kind.folder for kind in KINDS), ENVIRONMENTS}:
        tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
        assert {f"uenvtool/data/{name}" for name in tracked.stdout.splitlines()} - shipped == set(), folder

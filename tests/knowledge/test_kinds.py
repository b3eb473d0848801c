"""Test the table of kinds: each kind of file needs only one row."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Write
from uenvtool.knowledge.kinds import KINDS, PUBLISHED, RECIPE, SYSTEM, TUNING, Kind, kind_of
from uenvtool.knowledge.settings import ENVIRONMENTS
from uenvtool.knowledge.yamltree import parse


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


BUILT_IN = """description: a system
site: here
fabric: none
nodes: {cpu: {target: x86_64, os: sles15, cores: 4}}
runtimes: [none]
"""


CHANGES = {
    ("description:", "descripton:"): "unknown key 'descripton'",
    ("fabric: none", "fabric: slingshott"): "'slingshott' is not one of slingshot, roce",
    ("[none]", "{a: [none]}"): "runtimes: expected a list",
    ("cores: 4", "cores: many"): "cores: expected a whole number",
}
LOADS = """
import sys
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.system import load_system
for name in sys.argv[1:]:
    try:
        print(load_system(name).site)
    except BadInput as error:
        print(error.problems[0])
"""


def test_a_file_that_ships_and_was_changed_is_checked(tmp_path: Path) -> None:
    """It is not checked each time; but what does not fit the values is, so that its problem has a place."""
    shutil.copytree(ROOT / "uenvtool", tmp_path / "uenvtool")  # which takes what lies beside it for what ships
    systems, runtimes = tmp_path / "knowledge" / "systems", tmp_path / "knowledge" / "runtimes"
    systems.mkdir(parents=True)
    runtimes.mkdir()
    (runtimes / "none.yaml").write_text("description: nothing is loaded\n")
    texts = {"right": BUILT_IN, **{f"wrong{at}": BUILT_IN.replace(*change) for at, change in enumerate(CHANGES)}}
    for name, text in texts.items():
        (systems / f"{name}.yaml").write_text(text)

    done = subprocess.run(
        [sys.executable, "-c", LOADS, *texts], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    right, *wrong = [line for line in done.stdout.splitlines() if not line.startswith("hint: ")]
    assert right == "here"
    for at, (line, message) in enumerate(zip(wrong, CHANGES.values(), strict=True)):
        assert f"knowledge/systems/wrong{at}.yaml:" in line
        assert message in line


def test_the_wheel_ships_every_folder_that_is_read_from_what_ships(tmp_path: Path) -> None:
    from hatchling.builders.wheel import WheelBuilder

    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    shipped = set(zipfile.ZipFile(wheel).namelist())

    for folder in {*(kind.directory for kind in KINDS), ENVIRONMENTS}:
        tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
        assert {f"uenvtool/data/{name}" for name in tracked.stdout.splitlines()} - shipped == set(), folder


def test_validate_reads_the_files_of_a_directory_and_counts_the_guessed_values(cli: Cli, write: Write) -> None:
    cli("new", "system", "mine")
    write("recipes/broken/recipe.yaml", "extends: hello\nsurprise: 1\n")
    Path("empty").mkdir()

    systems, everything, empty = cli("validate", "systems"), cli("validate", "."), cli("validate", "empty")

    guesses = Path("systems/mine.yaml").read_text().count("# guessed: ")
    assert guesses
    assert systems.code == 0
    assert f"systems/mine.yaml: fine, with {guesses} guessed value" in systems.stderr
    assert everything.code == 2
    assert "recipes/broken/recipe.yaml:2:1: unknown key 'surprise'" in everything.stderr
    assert "systems/mine.yaml: fine" in everything.stderr
    assert (empty.code, "empty:1:1: no knowledge file in this directory" in empty.stderr) == (2, True)


def test_validate_goes_on_after_a_broken_file_that_a_system_needs(cli: Cli, write: Write) -> None:
    write("fabrics/slingshot.yaml", "packages: [\n")
    write("systems/mine.yaml", "extends: clariden\n")
    write("systems/other.yaml", "extends: clariden\nsurprise: 1\n")

    answer = cli("validate", "systems", "--json")

    assert answer.code == 2
    assert [problem["file"] for problem in json.loads(answer.stdout)] == [
        "fabrics/slingshot.yaml",
        "systems/other.yaml",
    ]

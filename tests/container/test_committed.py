"""Test that the files in containers/ match their inputs, and that --check reports differences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Write
from tests.container.recipes import project, recipe
from uenvtool.knowledge.kinds import CONTAINER

SHIPPED = sorted(path.parent.name for path in (ROOT / "recipes").glob("*/container.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_committed_is_what_its_inputs_give(name: str, cli: Cli) -> None:
    answer = cli("container", name, "--check", "-o", ROOT / "containers" / name)

    assert answer.code == 0, answer.stderr


def test_every_recipe_that_ships_is_committed() -> None:
    assert sorted(path.name for path in (ROOT / "containers").iterdir()) == SHIPPED
    assert CONTAINER.directory == "recipes"


def test_a_changed_file_is_a_drift_and_is_replaced_with_force_alone(cli: Cli, write: Write) -> None:
    project(write, {"part": {}})
    cli("container", "mine", "--system", "clariden")
    path = Path("containers/mine/Containerfile")
    before = path.read_text()
    path.write_text(before + "RUN true\n")

    checked = cli("container", "mine", "--system", "clariden", "--check")
    refused = cli("container", "mine", "--system", "clariden")
    forced = cli("container", "mine", "--system", "clariden", "--force")

    assert checked.code == 1
    assert "-RUN true" in checked.stderr
    assert "hint: generate it again with `uenvtool container mine" in checked.stderr
    assert refused.code == 2
    assert "has been changed since uenvtool wrote it" in refused.stderr
    assert forced.code == 0
    assert path.read_text() == before


@pytest.mark.parametrize(("option", "named"), [([], ""), (["-o", "own place"], " -o 'own place'")])
def test_the_hint_of_a_drift_makes_the_files_where_they_lie(
    cli: Cli, write: Write, option: list[str], named: str
) -> None:
    project(write, {"part": {}})
    cli("container", "mine", *option)
    write("recipes/mine/container.yaml", recipe(pip=["metatrain"]))

    assert (
        f"hint: generate it again with `uenvtool container mine{named}`"
        in cli("container", "mine", *option, "--check").stderr
    )


def test_a_folder_of_downloads_beside_the_files_stays(cli: Cli, write: Write) -> None:
    project(write, {"part": {}})
    kept = write("containers/mine/sources/part-1.0.tar.gz", "x")

    assert cli("container", "mine", "--system", "clariden").code == 0
    assert kept.is_file()

"""Real Spack says what its package repositories do not have, before it looks for a solution."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SMALL, Cli, Write
from tests.real.conftest import RealSpack

pytestmark = [pytest.mark.real, pytest.mark.slow]
PINNED = "tag: v2026.06.0, commit: d4f7c711a6a42f1c4d551c8fd10fce9a11340a81}"
LOCAL = SMALL.replace("home: clariden", "home: local").replace("tag: v2026.06.0}", PINNED)
"""With the commit of the recipes that ship, whose index of packages Spack keeps."""
WRONG = LOCAL.replace("- zlib-ng\n", "- zlip\n    - pigz@9.1\n    - zstd +no_such ^xz@0.1\n")


def test_validate_says_all_that_no_repository_has_and_the_nearest(
    cli: Cli, real_spack: RealSpack, write: Write
) -> None:
    path = write("recipes/odd/recipe.yaml", WRONG)

    alone, held = cli("validate", path), cli("validate", path, *real_spack.options)

    assert alone.code == 0, alone.stderr
    assert held.code == 2
    for said in ("has zlip\n", "has pigz@9.1 ", "zstd has no variant no_such", "has xz@0.1 ", "pigz", "2.8"):
        assert said in held.stderr


def test_build_says_it_before_it_resolves(cli: Cli, real_spack: RealSpack, write: Write) -> None:
    write("recipes/odd/recipe.yaml", WRONG)

    answer = cli("build", "odd", *real_spack.options)

    assert answer.code == 2
    assert "no package repository has pigz@9.1" in answer.stderr
    assert not Path("envs/odd/local-host/.uenvtool-concretize.log").exists()


def test_edit_refuses_it_and_the_recipe_stays(cli: Cli, real_spack: RealSpack, write: Write) -> None:
    path = write("recipes/mine/recipe.yaml", LOCAL)
    before = path.read_text()

    answer = cli("edit", "mine", "--add", "lz4@99", *real_spack.options)

    assert answer.code == 2
    assert "no package repository has lz4@99" in answer.stderr
    assert path.read_text() == before


def test_a_repository_that_cannot_be_had_is_said_and_nothing_of_what_is_in_it(
    cli: Cli, real_spack: RealSpack, write: Write
) -> None:
    text = LOCAL.replace("repos: {", "repos: {ours: {url: file:///nowhere/ours.git, tag: v1}, ")
    path = write("recipes/odd/recipe.yaml", text)

    held, built = cli("validate", path, *real_spack.options[:4]), cli("build", "odd", *real_spack.options[:4])

    assert (held.code, built.code) == (2, 4)
    assert "--repo ours=PATH" in held.stderr
    assert "could not fetch the package repository ours" in built.stderr
    assert "no package repository has" not in held.stderr + built.stderr

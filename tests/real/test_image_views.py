"""Test an image with two builds of one package in different views, with real programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.real.test_image_build import loaded
from tests.support import peers
from tests.support.image_builds import MARKS
from tests.support.installed import installed_hello

pytestmark = [*MARKS, pytest.mark.xdist_group("spack")]
RECIPE = """\
extends: hello
description: Two builds of zstd.
remove: [py-pip, py-six, py-packaging, py-typing-extensions, py-markupsafe, py-jinja2, python-venv]
unify: when_possible
groups:
  tools: {specs: [zstd +programs]}
  libraries: {specs: [zstd ~programs]}
  python: {specs: []}
view: {exclude: [zstd], env: {PLACE: "${view_root}/share"}}
views:
  programs: {link: roots, select: [zstd +programs]}
  library: {link: roots, select: [zstd ~programs]}
"""


def test_each_view_has_its_own_of_two_builds(cli: Cli, write: Write, place: Path) -> None:
    write("recipes/two/recipe.yaml", RECIPE)
    system = installed_hello().environment.parent / "systems" / "late.yaml"
    options = ("--spack", peers.SPACK.need(), "--repo", f"builtin={peers.PACKAGES.need()}")

    built = cli(
        *("image", "build", "two", "--system", system, *options, "--mirror", peers.SOURCES.need()),
        *("--store", place / "store", "-o", "two.squashfs", "--json"),
    )

    assert built.code == 0, built.stderr
    assert json.loads(built.stdout)["packages"]["zstd"] == ["1.5.6"]
    image = str(place / "two.squashfs")
    root = "/user-environment/env"
    meta = json.loads(loaded(image, "default", "cat", "/user-environment/meta/env.json"))
    assert set(meta["views"]) == {"default", "programs", "library", "spack"}
    assert meta["default-view"] == "default"
    assert loaded(image, "programs", "bash", "-c", "command -v zstd; echo $PLACE").split() == [
        f"{root}/programs/bin/zstd",
        f"{root}/programs/share",
    ]
    assert loaded(image, "default", "pigz", "--version").strip() == "pigz 2.8"
    for view, test in (
        ("default", f"! -e {root}/default/bin/zstd"),
        ("library", f"-e {root}/library/lib/libzstd.so -a ! -e {root}/library/bin/zstd"),
    ):
        loaded(image, view, "bash", "-c", f"test {test}")
    assert cli("image", "verify", image).code == 0

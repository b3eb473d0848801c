"""An image with two builds of one package, which views tell apart: resolved, built and loaded by the real programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.real.test_image_build import loaded, run_loaded
from tests.support import peers
from tests.support.image_builds import spack_variables
from tests.support.installed import installed_hello
from tests.support.needs import needs, needs_solver

pytestmark = [
    pytest.mark.real,
    pytest.mark.build,
    pytest.mark.usefixtures("mount_points"),
    pytest.mark.xdist_group("spack"),
    needs_solver,
    *needs("mksquashfs"),
]
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


def test_each_view_has_its_own_of_two_builds(
    cli: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in spack_variables().items():
        monkeypatch.setenv(name, value)
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
    meta = json.loads(
        subprocess.run(["unsquashfs", "-cat", image, "meta/env.json"], capture_output=True, check=True).stdout
    )
    assert set(meta["views"]) == {"default", "programs", "library", "spack"}
    assert meta["default-view"] == "default"
    assert loaded(image, "programs", "bash", "-c", "command -v zstd; echo $PLACE").split() == [
        f"{root}/programs/bin/zstd",
        f"{root}/programs/share",
    ]
    assert loaded(image, "default", "pigz", "--version").strip() == "pigz 2.8"
    assert run_loaded(image, "default", "bash", "-c", f"test ! -e {root}/default/bin/zstd").returncode == 0
    assert (
        run_loaded(
            image, "library", "bash", "-c", f"cd {root}/library; test -e lib/libzstd.so -a ! -e bin/zstd"
        ).returncode
        == 0
    )
    verified = cli("image", "verify", image)
    assert verified.code == 0, verified.stdout + verified.stderr

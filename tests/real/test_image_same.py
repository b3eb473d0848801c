"""Test that a lock always gives the same image, from a used or new store, and as root or an ordinary user."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support import peers
from tests.support.image_builds import MARKS, UENVTOOL, environ, spack_variables, store_of_hello
from tests.support.installed import installed_hello
from tests.support.ordinary_user import public_folder, run_as_ordinary_user
from uenvtool.cli import run

pytestmark = MARKS
ROOTS = ("zlib-ng", "py-six")
"""A C library, and a Python package with the packages that install it: pip, setuptools and wheel."""


def small_environment(folder: Path) -> Path:
    """Return the environment of `hello` with only ROOTS, which is another lock with the same packages."""
    whole = installed_hello().environment
    folder.mkdir()
    lock = json.loads((whole / "spack.lock").read_text())
    lock["roots"] = [root for root in lock["roots"] if root["spec"].split("@")[0].split()[0] in ROOTS]
    needed, waiting = set(), [root["hash"] for root in lock["roots"]]
    while waiting:
        key = waiting.pop()
        needed.add(key)
        waiting += [edge["hash"] for edge in lock["concrete_specs"][key].get("dependencies", ())]
    lock["concrete_specs"] = {key: spec for key, spec in lock["concrete_specs"].items() if key in needed}
    (folder / "spack.lock").write_text(json.dumps(lock))
    manifest = yaml.safe_load((whole / "spack.yaml").read_text())
    del manifest["spack"]["definitions"]
    manifest["spack"]["specs"] = [root["spec"] for root in lock["roots"]]
    (folder / "spack.yaml").write_text(json.dumps(manifest))
    return folder


def words(environment: Path, store: Path, image: Path, spack: Path) -> list[str]:
    """Return the arguments that build the image of an environment."""
    options = ["--spack", spack, "--repo", f"builtin={peers.PACKAGES.need()}", "--mirror", peers.SOURCES.need()]
    return [str(word) for word in ("image", "build", environment, *options, "--store", store, "-o", image)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Returns a directory that every user can enter."""
    with public_folder() as folder:
        yield folder


def test_another_user_and_a_used_store_give_the_same_image(folder: Path) -> None:
    spack = peers.SPACK.need()
    environment = small_environment(folder / "small")
    store_of_hello(folder / "used")
    shutil.copytree(spack, folder / "spack", symlinks=True)
    shutil.copytree(spack_variables()["SPACK_USER_CACHE_PATH"], folder / "user-cache", symlinks=True)
    assert run(words(environment, folder / "used", folder / "root.squashfs", spack)) == 0
    more = environ({"SPACK_USER_CACHE_PATH": str(folder / "user-cache"), "HOME": str(folder), "USER": "somebody"})

    again = words(environment, folder / "fresh", folder / "user.squashfs", folder / "spack")
    done = run_as_ordinary_user([*UENVTOOL, *again], folder=folder, env=more)

    assert done.returncode == 0, done.stderr
    sums = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("root.squashfs", "user.squashfs")]
    assert sums[0] == sums[1]
    assert run(["image", "verify", str(folder / "user.squashfs")]) == 0
    assert os.listdir("/user-environment") == []

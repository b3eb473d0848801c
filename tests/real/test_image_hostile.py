"""Test untrusted packages and caches with real Spack: the paths that a build can write, trusted signatures, and a
read-only store."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import Answer, Cli
from tests.support import peers
from tests.support.disks import make_read_only, small_disk
from tests.support.image_builds import MARKS
from tests.support.made_once import made_once
from tests.support.needs import need
from tests.support.project import ROOT
from uenvtool.cli import run

pytestmark = [*MARKS, pytest.mark.xdist_group("spack")]
RECIPE = """\
description: One package without code of its own.
home: local
uarchs: [any]
spack: {url: https://github.com/spack/spack.git, tag: v1.1.0}
repos: REPOS
groups: {all: {specs: [greeting]}}
view: {link: all}
"""
"""REPOS: those of hello, whose index Spack has by then."""
PACKAGE = """\
from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Greeting(Package):
    \"\"\"A script.\"\"\"

    has_code = False
    version("1.0")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        with open(join_path(prefix.bin, "greeting"), "w") as script:
            script.write("#!/bin/sh")
"""
OUTSIDE = """
        for place in {places}:
            try:
                with open(join_path(place, "written-by-a-build"), "w") as file:
                    file.write("x")
            except OSError as error:
                print(place, error)
"""
Build = Cli


def resolved() -> Path:
    """Return the environment of the recipe, which is resolved once. Do not change it."""
    spack, packages = peers.SPACK.need(), peers.PACKAGES.need()
    repos = json.dumps(yaml.safe_load((ROOT / "recipes" / "hello" / "recipe.yaml").read_text())["repos"])

    def make(folder: Path) -> None:
        texts = {"recipe.yaml": RECIPE.replace("REPOS", repos), "packages/greeting/package.py": PACKAGE}
        for name, text in texts.items():
            (folder / "small" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "small" / name).write_text(text)
        options = ["--spack", str(spack), "--repo", f"builtin={packages}", "-o", str(folder / "environment")]
        assert run(["build", str(folder / "small" / "recipe.yaml"), *options]) == 0

    return made_once("small-resolved", "\n".join([RECIPE, PACKAGE, repos, str(spack)]), make) / "environment"


@pytest.fixture
def build(cli: Cli, place: Path) -> Build:
    """Builds the image of one small package. more: lines of Python at the end of its installation."""
    shutil.copytree(resolved(), place / "small", symlinks=True)
    [package] = place.glob("small/**/greeting/package.py")

    def call(*words: str | Path, more: str = "") -> Answer:
        package.write_text(PACKAGE + more)
        options = ("--spack", peers.SPACK.need(), "--repo", f"builtin={peers.PACKAGES.need()}")
        return cli("image", "build", place / "small", *options, *words)

    return call


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes Spack use the keys of a user who has one own key and trusts no other key."""
    gpg = need("gpg")
    folders = []

    def use(name: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix=name))  # a short name: there is a socket in it
        folders.append(folder)
        monkeypatch.setenv("SPACK_GNUPGHOME", str(folder))
        create = [peers.SPACK.need() / "bin" / "spack", "gpg", "create", name, f"{name}@example.org"]
        subprocess.run(create, env={**os.environ, "SPACK_DISABLE_LOCAL_CONFIG": "1"}, check=True, capture_output=True)

    yield use
    for folder in folders:
        agent = [Path(gpg).parent / "gpgconf", "--homedir", folder, "--kill", "all"]
        subprocess.run(agent, capture_output=True, check=False)
        shutil.rmtree(folder)


def test_a_build_that_writes_outside_is_kept_in(build: Build, place: Path, cli: Cli) -> None:
    places = [os.environ["HOME"], str(ROOT), "/usr/local", "/etc", "/user-environment/../opt"]

    answer = build("--store", place / "store", "-o", "small.squashfs", more=OUTSIDE.format(places=places))

    assert answer.code == 0, answer.stderr
    assert not [folder for folder in places if (Path(folder) / "written-by-a-build").exists()]
    verified = cli("image", "verify", "small.squashfs")
    assert verified.code == 0, verified.stderr


def test_a_build_that_needs_to_write_outside_fails_and_says_where(build: Build, place: Path) -> None:
    needing = """
        import os
        with open(os.path.expanduser("~/.greeting"), "w") as file:
            file.write("x")
"""

    answer = build("--store", place / "store", "-o", "small.squashfs", more=needing)

    assert answer.code == 4
    assert re.search("(?s)could not install greeting-1.0.*Read-only file system", answer.stderr)
    assert not (Path(os.environ["HOME"]) / ".greeting").exists()
    assert not (place / "small.squashfs").exists()


def test_a_store_that_takes_no_writes_is_named_and_the_old_image_stays(build: Build, place: Path) -> None:
    assert build("--store", place / "store", "-o", "small.squashfs").code == 0
    before = (place / "small.squashfs").read_bytes()

    with small_disk(place / "disk", "50m") as disk:
        shutil.copytree(place / "store", disk / "store", symlinks=True)
        make_read_only(disk)
        whole = build("--store", disk / "store", "-o", "small.squashfs")
        empty = build("--store", disk / "new", "-o", "small.squashfs")

    for answer in (whole, empty):
        assert answer.code == 4, answer.stderr
        assert re.search(f"(?s){place}/disk.*ead-only|ead-only.*{place}/disk", answer.stderr)
    assert (place / "small.squashfs").read_bytes() == before


def test_a_signature_by_a_key_that_is_not_trusted_does_not_count(
    build: Build, place: Path, keys: Callable[[str], None]
) -> None:
    keys("alice")
    filled = build("--store", place / "first", "-o", "first.squashfs", "--push", place / "cache")
    taken = build("--store", place / "second", "-o", "second.squashfs", "--cache", place / "cache")
    keys("bob")
    built = build("--store", place / "third", "-o", "third.squashfs", "--cache", place / "cache")

    assert filled.code == 0, filled.stderr
    assert list((place / "cache").rglob("*.manifest.json")), filled.stderr
    assert taken.code == 0, taken.stderr
    assert "built, since" not in taken.stderr
    assert built.code == 0, built.stderr
    assert "or Spack does not trust the key of their signatures (`spack gpg trust`): greeting-1.0" in built.stderr


def test_a_signature_or_a_package_that_was_changed_is_not_taken(
    build: Build, place: Path, keys: Callable[[str], None]
) -> None:
    keys("alice")
    assert build("--store", place / "first", "-o", "first.squashfs", "--push", place / "cache").code == 0
    signed = [path for path in (place / "cache").rglob("*greeting*") if path.is_file() and ".manifest" in path.name]
    for path in signed:  # what is signed says another thing than what its author signed
        text = path.read_text()
        assert '"checksum":"' in text
        path.write_text(text.replace('"checksum":"', '"checksum":"0', 1))

    answer = build("--store", place / "second", "-o", "second.squashfs", "--cache", place / "cache")

    assert signed
    assert answer.code == 0, answer.stderr
    assert re.search("built because no build cache has them.*greeting-1.0", answer.stderr)

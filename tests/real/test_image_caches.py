"""Build caches and mirrors of real Spack: filled, taken from, absent, not trusted."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support import peers
from tests.support.image_builds import build_words, spack_variables
from tests.support.installed import installed_hello
from tests.support.needs import need, needs, needs_solver

pytestmark = [
    pytest.mark.real,
    pytest.mark.build,
    pytest.mark.usefixtures("mount_points"),
    pytest.mark.xdist_group("spack"),
    needs_solver,
    *needs("mksquashfs"),
]
COMPILED = ("zstd-1.5.6", "zlib-ng-2.2.2", "pigz-2.8")


@pytest.fixture
def build(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Builds the image of `hello` with further words."""
    for name, value in spack_variables().items():
        monkeypatch.setenv(name, value)
    return lambda *words: cli(*build_words("--json", *words))


@pytest.fixture
def cache(build: Cli, place: Path) -> Path:
    """A build cache with the packages of `hello`, which nobody signed."""
    shutil.copytree(installed_hello().store, place / "store", symlinks=True)
    filled = build("--store", place / "store", "-o", "first.squashfs", "--push", place / "cache", "--unsigned")
    assert filled.code == 0, filled.stderr
    assert f"15 packages are new in file://{place}/cache" in filled.stderr
    return place / "cache"


def test_a_cache_that_one_run_filled_spares_the_next_one_every_build(
    build: Cli, cache: Path, place: Path, cli: Cli
) -> None:
    options = ["--store", place / "new", "--cache", cache, "--cache", place / "absent", "--unsigned"]

    answer = build(*options, "-o", "second.squashfs")
    pushed_again = build(*options, "-o", "second.squashfs", "--push", cache)

    assert answer.code == 0, answer.stderr
    assert "; building " not in answer.stderr
    assert f"there is no build cache at file://{place}/absent" in answer.stderr
    assert "built, since" not in answer.stderr
    assert "0 packages are new in" in pushed_again.stderr
    assert cli("image", "diff", "first.squashfs", "second.squashfs").code == 0
    verified = cli("image", "verify", "first.squashfs", "second.squashfs")
    assert verified.code == 0, verified.stderr


def test_packages_that_nobody_signed_are_built_and_it_says_so(build: Cli, cache: Path, place: Path) -> None:
    answer = build("--store", place / "new", "--cache", cache, "-o", "second.squashfs")

    assert answer.code == 0, answer.stderr
    warning = next(line for line in answer.stderr.splitlines() if "built, since the caches do not have them" in line)
    assert "spack gpg trust" in warning
    assert all(package in warning for package in COMPILED)


def test_a_missing_key_is_said_before_anything_is_built(
    build: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPACK_GNUPGHOME", str(place / "no-keys"))
    answer = build("--store", place / "store", "-o", "first.squashfs", "--push", place / "cache")

    assert answer.code == 4
    assert "has no key to sign packages with" in answer.stderr
    assert "--unsigned" in answer.stderr
    assert not (place / "first.squashfs").exists()
    assert not (place / "store").exists()


def test_by_a_site_file_one_build_signs_and_fills_the_cache_that_the_next_one_verifies_and_takes(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, build: Cli
) -> None:
    gpg, home = need("gpg"), place / "gnupg"
    home.mkdir(mode=0o700)
    words = [gpg, "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*words, "--quick-generate-key", "builds@example.org", "rsa2048", "sign"], check=True)
    for name, option in (("public", "--export"), ("secret", "--export-secret-keys")):
        subprocess.run([*words, "--armor", "--output", place / f"{name}.asc", option], check=True)
    shared = (
        f"spack: {peers.SPACK.need()}\nrepos: {{builtin: {peers.PACKAGES.need()}}}\nstores: {place}/stores\n"
        f"mirrors:\n  sources: {{url: {peers.SOURCES.need()}, binary: false}}\n"
        f"  cache: {{url: {place}/cache, source: false}}\n"
    )
    (place / "filling.yaml").write_text(f"{shared}push: cache\nkeys: [{place}/public.asc, {place}/secret.asc]\n")
    (place / "taking.yaml").write_text(f"{shared}keys: [{place}/public.asc]\n")
    shutil.copytree(installed_hello().store, place / "store", symlinks=True)
    command = ("image", "build", installed_hello().environment)

    filled = cli(*command, "--store", place / "store", "-o", "first.squashfs", "--site", place / "filling.yaml")
    monkeypatch.setenv("UENVTOOL_SITE", str(place / "taking.yaml"))
    taken = cli(*command, "-o", "second.squashfs")

    assert filled.code == 0, filled.stderr
    assert "15 packages are new in cache" in filled.stderr
    assert taken.code == 0, taken.stderr
    assert "built, since" not in taken.stderr
    assert "; building " not in taken.stderr
    assert len(os.listdir(place / "stores")) == 1
    assert cli("image", "diff", "first.squashfs", "second.squashfs").code == 0

"""Build caches and mirrors of real Spack: filled, taken from, absent, not trusted."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
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
    assert cli("diff", "first.squashfs", "second.squashfs").code == 0
    assert cli("diff", "first.squashfs", installed_hello().environment).code == 0
    verified = cli("image", "verify", "first.squashfs", "second.squashfs")
    assert verified.code == 0, verified.stderr


def test_a_scope_names_the_cache_that_one_build_signs_and_fills_and_the_next_one_verifies_and_takes(
    build: Cli, cli: Cli, place: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / "gnupg"
    home.mkdir(mode=0o700)
    words = [need("gpg"), "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*words, "--quick-generate-key", "builds@example.org", "rsa2048", "sign"], check=True)
    monkeypatch.setenv("SPACK_GNUPGHOME", str(home))
    shutil.copytree(installed_hello().store, place / "store", symlinks=True)
    write("scope/mirrors.yaml", f"mirrors:\n  cache: {{url: 'file://{place}/cache', source: false}}\n")

    filled = build("--store", place / "store", "-o", "first.squashfs", "--push", place / "cache")
    taken = build("--store", place / "new", "-o", "second.squashfs", "--config-scope", "scope")

    assert filled.code == 0, filled.stderr
    assert f"15 packages are new in file://{place}/cache" in filled.stderr
    assert taken.code == 0, taken.stderr
    assert "; building " not in taken.stderr
    assert (place / "first.squashfs").read_bytes() == (place / "second.squashfs").read_bytes()

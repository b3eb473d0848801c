"""Test build caches and mirrors with real Spack: filled, used, missing and untrusted."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Answer, Cli, Write
from tests.support.image_builds import MARKS, build_words, store_of_hello
from tests.support.installed import installed_hello
from tests.support.needs import need

pytestmark = [*MARKS, pytest.mark.xdist_group("spack")]


@pytest.fixture
def build(cli: Cli) -> Cli:
    """Builds the image of `hello` with additional arguments, and asserts success."""

    def call(*words: str | Path) -> Answer:
        answer = cli(*build_words("--json", *words))
        assert answer.code == 0, answer.stderr
        return answer

    return call


def test_a_cache_that_one_run_filled_spares_the_next_one_every_build(build: Cli, place: Path, cli: Cli) -> None:
    cache, store = place / "cache", store_of_hello(place / "store")
    options = ["--store", place / "new", "--cache", cache, "--cache", place / "absent", "--unsigned"]

    filled = build("--store", store, "-o", "first.squashfs", "--push", cache, "--unsigned")
    taken = build(*options, "-o", "second.squashfs")
    pushed_again = build(*options, "-o", "second.squashfs", "--push", cache)

    assert f"15 packages are new in file://{cache}" in filled.stderr
    assert f"the build cache file://{place}/absent does not exist" in taken.stderr
    assert not re.search("; building |built, since", taken.stderr)
    assert "0 packages are new in" in pushed_again.stderr
    assert cli("diff", "first.squashfs", "second.squashfs").code == 0
    assert cli("diff", "first.squashfs", installed_hello().environment).code == 0
    assert cli("image", "verify", "first.squashfs", "second.squashfs").code == 0


def test_a_scope_names_the_cache_that_one_build_signs_and_fills_and_the_next_one_verifies_and_takes(
    build: Cli, place: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / "gnupg"
    home.mkdir(mode=0o700)
    words = [need("gpg"), "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*words, "--quick-generate-key", "builds@example.org", "rsa2048", "sign"], check=True)
    monkeypatch.setenv("SPACK_GNUPGHOME", str(home))
    store = store_of_hello(place / "store")
    write("scope/mirrors.yaml", f"mirrors:\n  cache: {{url: 'file://{place}/cache', source: false}}\n")

    filled = build("--store", store, "-o", "first.squashfs", "--push", place / "cache")
    taken = build("--store", place / "new", "-o", "second.squashfs", "--config-scope", "scope")

    assert f"15 packages are new in file://{place}/cache" in filled.stderr
    assert "; building " not in taken.stderr
    assert (place / "first.squashfs").read_bytes() == (place / "second.squashfs").read_bytes()

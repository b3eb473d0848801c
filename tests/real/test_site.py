"""A site file held against real Spack before a build: mirrors on disk, on the web and in an object store, and keys."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Answer, Cli, Write
from tests.support import peers
from tests.support.kept_images import ENVIRONMENT, spack_that_only_has_a_version
from tests.support.needs import need, skip_without
from tests.support.web import Quiet, served

pytestmark = pytest.mark.real
SECRET = "a-secret-that-nobody-prints"


class Bucket(Quiet):
    """An object store with one bucket, which lists nothing; who signs with another id than this is refused."""

    def do_GET(self) -> None:
        is_known = "Credential=known/" in self.headers.get("Authorization", "")
        name = "ListBucketResult" if is_known else "Error"
        more = (
            "<IsTruncated>false</IsTruncated>" if is_known else "<Code>InvalidAccessKeyId</Code><Message>no</Message>"
        )
        body = f"<{name}>{more}</{name}>".encode()
        self.send_response(200 if is_known else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.send_response(http.HTTPStatus.OK if self.path.endswith("layout.json") else http.HTTPStatus.NOT_FOUND)
        self.end_headers()


@pytest.fixture
def check(cli: Cli, write: Write, mount_points: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Checks what a build of `hello` needs by a site file with this text, and what the file says of Spack."""
    spack, packages = peers.SPACK.need(), peers.PACKAGES.need()
    need("mksquashfs")
    monkeypatch.setenv("CACHE_SECRET", SECRET)

    def call(text: str, *words: str | Path) -> Answer:
        file = write("site.yaml", f"spack: {spack}\nrepos: {{builtin: {packages}}}\n{text}")
        return cli("image", "build", "hello", "--check", "--site", file, *words)

    return call


def test_all_that_is_there_is_shown_and_nothing_is_written(check: Cli, place: Path) -> None:
    (place / "sources").mkdir()
    text = f"stores: {place}/stores\nmirrors:\n  sources: {{url: {place}/sources, binary: false}}\n"

    answer = check(text, "--json")
    found = json.loads(answer.stdout)

    assert answer.code == 0, answer.stderr
    assert found["mirror sources"] == "answers"
    assert found["Spack"].startswith("1.1.0 ")
    assert found["store"].startswith(f"{place}/stores, ")
    assert sorted(os.listdir(place)) == ["site.yaml", "sources"]


def test_all_that_is_not_there_is_said_at_once_where_it_stands(check: Cli, place: Path) -> None:
    text = (
        f"mirrors:\n"
        f"  sources: {{url: {place}/absent, binary: false}}\n"
        f"  web: http://127.0.0.1:9/cache\n"
        f"keys: [{place}/no.asc]\n"
        f"images: [{place}/kept]\n"
        f"stores: {place}/site.yaml/x\n"
    )

    answer = check(text, "--mirror", place / "gone")

    assert answer.code == 1
    assert f"there is no folder {place}/gone" in answer.stderr
    assert f"site.yaml:4:12: mirror sources: there is no folder {place}/absent" in answer.stderr
    assert "site.yaml:5:8: mirror web: http://127.0.0.1:9/cache: " in answer.stderr
    assert f"site.yaml:6:8: {place}/no.asc is not there" in answer.stderr
    assert f"site.yaml:7:10: {place}/kept: there is no such folder" in answer.stderr
    assert f"site.yaml:8:9: {place}/site.yaml/x cannot be written" in answer.stderr


def test_a_folder_that_is_no_build_cache_is_said_and_one_is_taken(check: Cli, place: Path) -> None:
    (place / "web").mkdir()
    with served(place / "web") as url:
        text = f"mirrors:\n  cache: {{url: '{url}', source: false}}\n"
        wrong = check(text)
        filled = check(f"{text}push: cache\n", "--unsigned")
        (place / "web" / "v3").mkdir()
        (place / "web" / "v3" / "layout.json").write_text('{"signing": "gpg"}')
        right = check(text)

    assert (wrong.code, filled.code, right.code) == (1, 0, 0), filled.stderr + right.stderr
    assert "mirror cache: no build cache is seen: " in wrong.stderr
    assert "answers 404" in wrong.stderr


def test_where_packages_are_pushed_is_asked_too(check: Cli, place: Path) -> None:
    gone = "http://127.0.0.1:9/cache"

    named = check("", "--push", gone, "--unsigned")
    in_site = check(f"push: {gone}\n", "--unsigned")
    folder = check("", "--push", place / "new", "--unsigned", "--json")

    assert (named.code, in_site.code, folder.code) == (1, 1, 0), folder.stderr
    assert f"mirror uenvtool-push: {gone}: " in named.stderr
    assert f"site.yaml:3:7: mirror uenvtool-push: {gone}: " in in_site.stderr
    assert json.loads(folder.stdout)["mirror uenvtool-push"] == "answers"


def test_an_object_store_gets_the_credentials_of_the_variables(
    check: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = os.environ.get("SPACK_PYTHON", "python3")
    if subprocess.run([python, "-c", "import boto3"], capture_output=True, check=False).returncode != 0:
        skip_without("boto3 for Spack's Python", "apt-get install python3-boto3")
    with served(place, Bucket) as url:
        text = (
            "mirrors:\n"
            f"  cache: {{url: s3://bucket/builds, source: false, endpoint_url: '{url}', "
            "access_pair: {id_variable: CACHE_ID, secret_variable: CACHE_SECRET}}\n"
        )
        monkeypatch.setenv("CACHE_ID", "unknown")
        wrong = check(text)
        monkeypatch.setenv("CACHE_ID", "known")
        right = check(text)
        monkeypatch.delenv("CACHE_SECRET")
        unset = check(text)

    assert (wrong.code, right.code, unset.code) == (1, 0, 2), right.stderr
    assert "site.yaml:4:10: mirror cache: s3://bucket/builds: " in wrong.stderr
    assert "InvalidAccessKeyId" in wrong.stderr
    assert "the variable CACHE_SECRET is not set" in unset.stderr
    assert SECRET not in wrong.stderr + right.stderr + wrong.stdout + right.stdout


def test_a_public_key_verifies_and_does_not_sign(check: Cli, place: Path) -> None:
    gpg, home = need("gpg"), place / "gnupg"
    home.mkdir(mode=0o700)
    words = [gpg, "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*words, "--quick-generate-key", "builds@example.org", "rsa2048", "sign"], check=True)
    for name, option in (("public", "--export"), ("secret", "--export-secret-keys")):
        subprocess.run([*words, "--armor", "--output", place / f"{name}.asc", option], check=True)
    shutil.rmtree(home)
    (place / "cache").mkdir()
    text = f"mirrors:\n  cache: {place}/cache\n"

    taken = check(f"{text}keys: [{place}/public.asc]\n")
    unable = check(f"{text}push: cache\nkeys: [{place}/public.asc]\n")
    able = check(f"{text}push: cache\nkeys: [{place}/public.asc, {place}/secret.asc]\n")

    assert (taken.code, unable.code, able.code) == (0, 1, 0), taken.stderr + able.stderr
    assert "has no key to sign packages with" in unable.stderr
    assert "site.yaml:6:7: " in unable.stderr


def test_a_spack_that_cannot_ask_ends_a_build_before_it_begins(cli: Cli, write: Write, place: Path) -> None:
    spack = spack_that_only_has_a_version(place / "spack")
    file = write("site.yaml", f"spack: {spack}\nmirrors:\n  cache: http://127.0.0.1:9/cache\n")

    answer = cli("image", "build", ENVIRONMENT, "--site", file, "--store", place / "store")

    assert answer.code == 1
    assert "site.yaml:3:3: Spack cannot ask the mirrors" in answer.stderr
    assert not (place / "store").exists()

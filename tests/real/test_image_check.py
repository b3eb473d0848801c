"""Test `image build --check` with real Spack: mirrors on disk, on the web and in an object store, and a key."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support import peers
from tests.support.needs import need, skip_without
from tests.support.web import Quiet, served

pytestmark = [pytest.mark.real, pytest.mark.slow]
SECRET = "a-secret-that-nobody-prints"


class Bucket(Quiet):
    """An object store with one empty bucket, which rejects requests that are signed with another ID."""

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
def check(cli: Cli, mount_points: tuple[Path, ...]) -> Cli:
    """Checks the requirements of a build of `hello`, with additional arguments."""
    spack, packages = peers.SPACK.need(), peers.PACKAGES.need()
    need("mksquashfs")
    words = ("image", "build", "hello", "--check", "--spack", spack, "--repo", f"builtin={packages}")
    return lambda *more: cli(*words, *more)


def test_all_that_is_there_is_shown_and_nothing_is_written(check: Cli, place: Path) -> None:
    (place / "sources").mkdir()

    words = ("--mirror", place / "sources", "--store", place / "stores", "--push", place / "new", "--unsigned")
    answer = check(*words, "--json")
    found = json.loads(answer.stdout)

    assert answer.code == 0, answer.stderr
    assert found["mirror uenvtool-source0"] == found["mirror uenvtool-push"] == "answers"
    assert found["Spack"].startswith("1.1.0 ")
    assert found["store"].startswith(f"{place}/stores, ")
    assert os.listdir(place) == ["sources"]


def test_all_that_is_not_there_is_said_at_once(
    check: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPACK_GNUPGHOME", str(place / "no-keys"))
    gone = "http://127.0.0.1:9/cache"
    write("scope/mirrors.yaml", f"mirrors: {{web: {gone}}}\n")
    store = place / "scope/mirrors.yaml/x"

    words = ("--mirror", place / "gone", "--store", store, "--config-scope", "scope", "--push", gone, "--unsigned")
    answer, unable = check(*words), check("--push", place / "new")
    absent = check("--config-scope", "absent")

    told = {
        f"the directory {place}/gone does not exist": answer,
        f"mirror web: {gone}: ": answer,
        f"mirror uenvtool-push: {gone}: ": answer,
        f"cannot write to the store {store}": answer,
        "has no key to sign packages with": unable,
        "--config-scope 'absent': directory not found": absent,
    }
    assert {answer.code for answer in told.values()} == {1}
    assert [text for text, answer in told.items() if text not in answer.stderr] == []


def test_a_folder_that_is_no_build_cache_is_said_and_one_is_taken(check: Cli, place: Path) -> None:
    (place / "web").mkdir()
    with served(place / "web") as url:
        wrong = check("--cache", url)
        filled = check("--push", url, "--unsigned")
        (place / "web" / "v3").mkdir()
        (place / "web" / "v3" / "layout.json").write_text('{"signing": "gpg"}')
        right = check("--cache", url)

    assert (wrong.code, filled.code, right.code) == (1, 0, 0), filled.stderr + right.stderr
    assert re.search("mirror uenvtool-cache0: no build cache was found: .*answers 404", wrong.stderr)


def test_an_object_store_gets_the_credentials_of_the_variables_that_a_scope_names(
    check: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = os.environ.get("SPACK_PYTHON", "python3")
    if subprocess.run([python, "-c", "import boto3"], capture_output=True, check=False).returncode != 0:
        skip_without("boto3 for Spack's Python", "apt-get install python3-boto3")
    monkeypatch.setenv("CACHE_SECRET", SECRET)
    with served(place, Bucket) as url:
        write(
            "scope/mirrors.yaml",
            f"mirrors:\n  cache: {{url: s3://bucket/builds, source: false, endpoint_url: '{url}', "
            "access_pair: {id_variable: CACHE_ID, secret_variable: CACHE_SECRET}}\n",
        )
        words = ("--config-scope", "scope", "--push", "s3://bucket/builds", "--unsigned")
        monkeypatch.setenv("CACHE_ID", "unknown")
        wrong = check(*words)
        monkeypatch.setenv("CACHE_ID", "known")
        right = check(*words)

    assert (wrong.code, right.code) == (1, 0), right.stderr
    for name in ("cache", "uenvtool-push"):
        assert re.search(f"mirror {name}: s3://bucket/builds: .*InvalidAccessKeyId", wrong.stderr)
    assert SECRET not in wrong.stderr + right.stderr + wrong.stdout + right.stdout

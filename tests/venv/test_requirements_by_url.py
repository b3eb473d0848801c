"""Test requirement files with a URL: hashes, options, and the positions of errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support.overlays import wheel
from tests.support.samples import slow
from tests.support.web import served
from tests.venv.conftest import record


@pytest.fixture
def digest(wheels: Path, no_base: None) -> str:
    """The hash of small 1.0, which is to be had beside small 2.0."""
    wheel(wheels, "small", "2.0")
    return hashlib.sha256(wheel(wheels, "small", "1.0").read_bytes()).hexdigest()


@pytest.fixture
def web(place: Path) -> Iterator[str]:
    """The URL of the folder `web`."""
    (place / "web").mkdir()
    with served(place / "web") as url:
        yield url


def test_its_hashes_are_kept_to_and_it_is_recorded(cli: Cli, done: Cli, write: Write, web: str, digest: str) -> None:
    write("web/r.txt", f"small==1.0 --hash=sha256:{digest}\n")
    done("venv", "v", "--no-base", "-r", f"{web}/r.txt")
    write("web/r.txt", f"small==1.0 --hash=sha256:{'0' * 64}\n")
    other = cli("venv", "w", "--no-base", "-r", f"{web}/r.txt")

    assert (other.code, Path("w").exists()) == (1, False)
    assert f"{web}/r.txt:1:1: small 1.0: no file has one of the given hashes" in other.stderr
    assert record("v")["requests"] == [{"text": f"small==1.0 --hash=sha256:{digest}", "origin": f"{web}/r.txt:1"}]


@pytest.mark.parametrize("through", ["-c", slow("PIP_CONSTRAINT"), slow("UV_CONSTRAINT")])
def test_constraints_by_url_count(
    cli: Cli, write: Write, web: str, digest: str, through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("web/c.txt", "small<2\n")
    write("r.txt", f"small\n-c {web}/c.txt\n" if through == "-c" else "small\n")
    if through != "-c":
        monkeypatch.setenv(through, f"{web}/c.txt")

    answer = cli("venv", "v", "--no-base", "-r", "r.txt", "--dry-run", "--json")

    assert [(row["name"], row["version"]) for row in json.loads(answer.stdout)["packages"]] == [("small", "1.0")]


@pytest.mark.parametrize(
    ("named", "code", "told"),
    [
        ("{web}/top.txt", 2, "{web}/sub/hashed.txt:2:1: small has no --hash"),
        slow("r.txt", 2, "{web}/sub/hashed.txt:2:1: small has no --hash"),
        ("{web}/wrong.txt", 2, "{web}/wrong.txt:3:1: invalid requirement 'numpy=1'"),
        slow("{web}/option.txt", 2, "{web}/option.txt:2:1"),
        ("{web}/gone.txt", 4, "{web}/gone.txt:1:1: the download failed: "),
        slow("gone.txt", 4, "gone.txt:2:1: {web}/gone.txt: the download failed: "),
    ],
)
def test_what_is_wrong_in_it_is_told_with_its_place(
    cli: Cli, write: Write, web: str, digest: str, named: str, code: int, told: str
) -> None:
    write("web/sub/hashed.txt", "--require-hashes\nsmall==1.0\n")
    write("web/top.txt", "-r sub/hashed.txt\n")
    write("web/wrong.txt", "small\n\nnumpy=1\n-r wrong.txt\n")
    write("web/option.txt", "small\n--frobnicate\n")
    write("r.txt", f"-r {web}/top.txt\n")
    write("gone.txt", f"small\n-r {web}/gone.txt\n")

    answer = cli("venv", "v", "--no-base", "-r", named.format(web=web))

    assert answer.code == code
    assert told.format(web=web) in answer.stderr

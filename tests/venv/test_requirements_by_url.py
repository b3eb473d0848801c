"""Requirement files that are named by their URL are read as others are: hashes, options, places of what is wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support.overlays import wheel
from tests.support.web import served


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


def test_its_hashes_are_kept_to_and_it_is_recorded(cli: Cli, write: Write, web: str, digest: str) -> None:
    write("web/r.txt", f"small==1.0 --hash=sha256:{digest}\n")
    made = cli("venv", "v", "--no-base", "-r", f"{web}/r.txt")
    write("web/r.txt", f"small==1.0 --hash=sha256:{'0' * 64}\n")
    other = cli("venv", "w", "--no-base", "-r", f"{web}/r.txt")

    assert (made.code, other.code) == (0, 1), made.stderr + other.stderr
    assert f"{web}/r.txt:1:1: small 1.0: none of its files has a hash that you name" in other.stderr
    assert not Path("w").exists()
    record = json.loads(Path("v/.uenvtool/uenvtool.json").read_text())
    assert record["requests"] == [{"text": f"small==1.0 --hash=sha256:{digest}", "origin": f"{web}/r.txt:1"}]


@pytest.mark.parametrize("through", ["file", "url"])
def test_hashes_that_it_requires_are_required(cli: Cli, write: Write, web: str, digest: str, through: str) -> None:
    write("web/sub/r.txt", "--require-hashes\nsmall==1.0\n")
    write("web/r.txt", "-r sub/r.txt\n")
    write("r.txt", f"-r {web}/r.txt\n")

    answer = cli("venv", "v", "--no-base", "-r", "r.txt" if through == "file" else f"{web}/r.txt")

    assert answer.code == 2
    assert f"{web}/sub/r.txt:2:1: small has no --hash" in answer.stderr


@pytest.mark.parametrize("through", ["-c", "PIP_CONSTRAINT", "UV_CONSTRAINT"])
def test_constraints_by_url_count(
    cli: Cli, write: Write, web: str, digest: str, through: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("web/c.txt", "small<2\n")
    write("r.txt", f"small\n-c {web}/c.txt\n" if through == "-c" else "small\n")
    if through != "-c":
        monkeypatch.setenv(through, f"{web}/c.txt")

    answer = cli("venv", "v", "--no-base", "-r", "r.txt", "--dry-run", "--json")

    assert [(row["name"], row["version"]) for row in json.loads(answer.stdout)["packages"]] == [("small", "1.0")]


@pytest.mark.parametrize(("line", "told"), [("numpy=1", "3:1: invalid requirement 'numpy=1'"), ("--frobnicate", "3:1")])
def test_what_is_wrong_in_it_is_told_with_its_place(
    cli: Cli, write: Write, web: str, digest: str, line: str, told: str
) -> None:
    write("web/r.txt", f"small\n\n{line}\n-r r.txt\n")

    answer = cli("venv", "v", "--no-base", "-r", f"{web}/r.txt")

    assert answer.code == 2
    assert f"{web}/r.txt:{told}" in answer.stderr


def test_one_that_does_not_come_is_told_with_its_place(cli: Cli, write: Write, web: str, digest: str) -> None:
    write("r.txt", f"small\n-r {web}/gone.txt\n")

    named = cli("venv", "v", "--no-base", "-r", f"{web}/gone.txt")
    inside = cli("venv", "v", "--no-base", "-r", "r.txt")

    assert (named.code, inside.code) == (4, 4)
    assert f"{web}/gone.txt:1:1: it cannot be fetched: " in named.stderr
    assert f"r.txt:2:1: {web}/gone.txt: it cannot be fetched: " in inside.stderr
    assert "hint: download it, and name the file in its place" in named.stderr

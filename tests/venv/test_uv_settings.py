"""Test that packages come only from the user's settings, and not from files in parent directories."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import BaseHere, wheel
from tests.support.samples import sampled
from tests.support.trees import snapshot
from tests.support.web import Quiet, served
from uenvtool.core.errors import ToolMissing
from uenvtool.venv.uv import find_uv

PROJECT = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["thing"]\n'
LOCK = """\
version = 1
requires-python = ">=3.10"

[[package]]
name = "mine"
version = "1"
source = { virtual = "." }
"""


@pytest.fixture
def below(loaded: Loaded, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in a folder that others can write into; wheels of another's lie there."""
    loaded("pythonpath")
    monkeypatch.delenv("PIP_FIND_LINKS")
    wheel(place / "theirs", "thing", "6.66")
    folder = place / "shared" / "mine"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def links(place: Path, table: str = "") -> str:
    return f"{table}find-links = ['{place}']\nno-index = true\n"


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_what_lies_in_a_folder_above_or_here_decides_nothing(name: str, below: Path, place: Path, cli: Cli) -> None:
    table = "[tool.uv]\n" if name == "pyproject.toml" else ""
    for where in ("shared", "shared/mine"):
        (place / where / name).write_text(links(place / "theirs", table))

    answer = cli("venv", "v", "thing")

    assert answer.code != 0, answer.stdout
    assert not (below / "v").exists()


def test_a_workspace_above_does_not_take_the_folder_of_the_work(
    below: Path, place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool works below TMPDIR, or beside the target: a folder above that may be another's too."""
    root = '[project]\nname = "x"\nversion = "1"\n[tool.uv.workspace]\nmembers = ["**", ".*/**"]\n'
    for folder in (place / "shared", place / "tmp"):
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text(links(place / "theirs", f"{root}[tool.uv]\n"))
    monkeypatch.setenv("TMPDIR", str(place / "tmp"))

    assert cli("venv", "v", "thing", "--dry-run").code != 0
    assert cli("venv", "v", "thing").code != 0


@pytest.mark.parametrize("kind", ["broken", "pipe"])
def test_a_file_above_that_cannot_be_read_stops_nothing(
    kind: str, below: Path, place: Path, wheels: Path, done: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(wheels, "thing", "1.0")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    if kind == "pipe":
        os.mkfifo(place / "shared/uv.toml")
    else:
        (place / "shared/uv.toml").write_text("[[[")
    (below / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.10"\n')
    (below / "uv.lock").write_text(LOCK)

    done("venv", "v", "thing")
    done("venv", "w", "--from", "uv.lock")


@pytest.mark.parametrize("how", ["user", "UV_CONFIG_FILE", "UV_FIND_LINKS"])
def test_what_the_user_has_set_counts(
    how: str, below: Path, place: Path, wheels: Path, done: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(wheels, "thing", "1.0")
    (place / "shared/uv.toml").write_text(links(place / "theirs"))
    own = Path(os.environ["HOME"]) / ".config/uv/uv.toml" if how == "user" else place / "own.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(links(wheels))
    if how != "user":
        monkeypatch.setenv(how, str(own if how == "UV_CONFIG_FILE" else wheels))

    answer = done("venv", "v", "thing")

    assert "6.66" not in answer.stdout


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_the_settings_of_a_project_that_is_named_count_with_their_paths(
    name: str, below: Path, place: Path, wheels: Path, done: Cli
) -> None:
    folder = place / "project"
    wheel(folder / "own", "thing", "1.0")
    (folder / "pyproject.toml").write_text(PROJECT)
    with (folder / name).open("a") as stream:
        stream.write(links(Path("own"), "[tool.uv]\n" if name == "pyproject.toml" else ""))

    assert "thing" in done("venv", "v", "-r", folder / "pyproject.toml").stdout


def test_a_folder_of_find_links_that_is_not_there_is_left_out_and_said_once(
    below: Path, place: Path, wheels: Path, done: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(wheels, "thing", "1.0")
    (place / "pip.conf").write_text(f"[global]\nfind-links =\n    /nonexistent\n    {wheels}\n    /nonexistent\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(place / "pip.conf"))

    answer = done("venv", "v", "thing")

    assert answer.stderr.count("find-links /nonexistent does not exist and is ignored") == 1


@pytest.mark.parametrize("status", sampled([503, 401, 500, 403], keep=2))
def test_an_index_that_fails_is_told_and_nothing_is_lost(
    here: BaseHere, done: Cli, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    class Failing(Quiet):
        def do_GET(self) -> None:
            self.send_error(status)

    done("venv", "v")
    before = snapshot(place)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    with served(place, Failing) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        answer = cli("venv", "v", "other")

    assert answer.code == 4
    assert "index" in answer.stderr
    assert snapshot(place) == before


def test_a_uv_that_is_neither_a_wheel_nor_on_path_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(ToolMissing) as missing:
        find_uv()

    assert "pip install uv" in missing.value.problems[0].hint

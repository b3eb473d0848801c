"""Bad input, hostile input and a machine that fails: a clear error, the right exit code, nothing lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import BaseHere, clean_environment, install, run, wheel
from tests.support.programs import program
from tests.support.pythons import python_of
from tests.support.samples import sampled
from tests.support.trees import snapshot
from tests.support.web import Quiet, served


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
    wheel(wheels, "small", "1.0")
    return found


@pytest.mark.parametrize(
    ("kind", "said"), [("file", "not a folder"), ("fifo", "not a folder"), ("symlink", "a symlink")]
)
def test_what_is_not_an_overlay_is_refused_and_left(
    here: BaseHere, cli: Cli, place: Path, kind: str, said: str
) -> None:
    if kind == "file":
        (place / "v").write_text("data")
    elif kind == "fifo":
        os.mkfifo(place / "v")
    else:
        (place / "real").mkdir()
        (place / "real" / "thesis.tex").write_text("years of work")
        (place / "v").symlink_to("real")
    before = snapshot(place)

    answer = cli("venv", "v", "small")

    assert answer.code == 2
    assert f"v is {said}" in answer.stderr
    assert snapshot(place) == before


@pytest.mark.parametrize(
    "name",
    sampled(["zweiß 'µ' 雪", "new\nline", "-v", 'say "hi"', "a b", "$HOME", "a;b|c&d", "back\\slash", "it's"], keep=3),
)
def test_a_path_of_any_letters_works(here: BaseHere, cli: Cli, wheels: Path, name: str) -> None:
    wheel(
        wheels,
        "speak",
        "1.0",
        files={"speak/__init__.py": "def main(): print('spoken')\n"},
        scripts={"speak": "speak:main"},
    )

    answer = cli("venv", f"./{name}", "speak")

    assert answer.code == 0, answer.stderr
    for words in ([f"./{name}/bin/speak"], [f"./{name}/bin/python", "-c", "import speak, torch; speak.main()"]):
        completed = run(words, clean_environment(**here.environment))
        assert completed.stdout == "spoken\n", completed.stderr
    sourced = run(
        ["bash", "-c", 'source "$1/bin/activate" && speak && deactivate', "bash", f"./{name}"], clean_environment()
    )
    assert sourced.stdout == "spoken\n", sourced.stderr


@pytest.mark.parametrize("inside", ["../../../../../evil", "/tmp/uenvtool-evil-file"])
def test_a_wheel_that_writes_outside_is_refused(
    here: BaseHere, cli: Cli, wheels: Path, place: Path, inside: str
) -> None:
    wheel(wheels, "evil", "1.0", files={inside: "gotcha"})
    before = {path.name for path in place.parent.iterdir()}

    answer = cli("venv", "v", "evil")

    assert answer.code == 4, answer.stderr
    assert {path.name for path in place.parent.iterdir()} == before
    assert list(place.iterdir()) == []
    assert not Path("/tmp/uenvtool-evil-file").exists()


@pytest.mark.parametrize(
    "file",
    [
        "_uenvtool_overlay.py",
        "evil-1.0.data/data/bin/python",
        "evil-1.0.data/data/pyvenv.cfg",
        "evil-1.0.data/scripts/python3",
        "evil-1.0.data/data/bin/activate",
        "evil-1.0.data/data/.uenvtool/uenvtool.json",
    ],
)
def test_a_wheel_that_replaces_a_part_of_the_overlay_is_refused(
    here: BaseHere, cli: Cli, wheels: Path, place: Path, file: str
) -> None:
    wheel(wheels, "evil", "1.0", files={file: "#!/bin/sh\necho evil\n"})

    answer = cli("venv", "v", "evil")

    assert answer.code in (1, 4), answer.stderr
    assert list(place.iterdir()) == []


def test_nothing_of_a_wheel_runs_while_it_is_installed(here: BaseHere, cli: Cli, wheels: Path, place: Path) -> None:
    mark = place.parent / "ran"
    code = f"open({str(mark)!r}, 'w').close()\n"
    wheel(
        wheels, "evil", "1.0", files={"evil/__init__.py": code, "evil.pth": "import evil\n", "sitecustomize.py": code}
    )

    answer = cli("venv", "v", "evil")

    assert answer.code == 0, answer.stderr
    assert not mark.exists()


def test_a_broken_wheel_is_told(here: BaseHere, cli: Cli, wheels: Path, place: Path) -> None:
    (wheels / "broken-1.0-py3-none-any.whl").write_bytes(b"PK\x03\x04 not a wheel")

    answer = cli("venv", "v", "broken")

    assert answer.code == 4, answer.stderr
    assert "broken" in answer.stderr
    assert list(place.iterdir()) == []


def test_a_wheel_for_another_platform_only_is_told(here: BaseHere, cli: Cli, wheels: Path) -> None:
    wheel(wheels, "winonly", "1.0", tag="cp312-cp312-win_amd64")

    answer = cli("venv", "v", "winonly")

    assert answer.code == 1, answer.stderr
    assert "winonly==1.0 has no wheels with a matching" in answer.stderr


@pytest.mark.parametrize("status", sampled([503, 401, 500, 403], keep=2))
def test_an_index_that_fails_is_told_and_nothing_is_lost(
    here: BaseHere, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    class Failing(Quiet):
        def do_GET(self) -> None:
            self.send_error(status)

    assert cli("venv", "v", "small").code == 0
    before = snapshot(place)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    with served(place, Failing) as url:
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        answer = cli("venv", "v", "other")

    assert answer.code == 4, answer.stderr
    assert "index" in answer.stderr
    assert snapshot(place) == before


def test_no_network_is_told_without_the_password_of_an_index(
    here: BaseHere, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:s3cret@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    answer = cli("venv", "v", "other")

    assert answer.code == 4, answer.stderr
    assert "Failed to fetch" in answer.stderr
    assert "s3cret" not in answer.stderr + answer.stdout
    assert list(place.iterdir()) == []


def test_uv_that_is_missing_is_told(here: BaseHere, cli: Cli, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    import uv

    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(uv, "find_uv_bin", none)

    answer = cli("venv", "v", "small")

    assert answer.code == 3
    assert "pip install uv" in answer.stderr


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("fails", "import sys; sys.exit('out of order')", "out of order"), ("old", "", "Python 3.9")],
)
def test_a_base_that_cannot_serve_is_told(
    no_base: None, cli: Cli, place: Path, name: str, code: str, said: str
) -> None:
    python = place.parent / "fakepython"
    if name == "old":
        python.symlink_to(python_of("3.9"))
    else:
        program(python, "echo out of order >&2\nexit 1")

    answer = cli("venv", "v", "--base", python)

    assert answer.code == (2 if name == "old" else 4)
    assert said in answer.stderr

"""Test small changes of an overlay, which keep the unchanged files and their bytecode."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BaseHere, wheel
from tests.venv.conftest import Begun, record


@pytest.fixture
def tmp_path(begun: Begun) -> Path:
    return begun.emptied()


@pytest.fixture
def overlay(here: BaseHere, wheels: Path, done: Cli, place: Path, begun: Begun) -> Path:
    def make() -> None:
        wheel(wheels, "stays", "1.0", files={"stays/part.py": "value = 1\n"})
        wheel(wheels, "changes", "1.0", files={"changes/part.py": "value = 1\n"})
        done("venv", "v", "stays", "changes")

    begun.fill(make)
    return place / "v"


def of(overlay: Path, name: str) -> Path:
    return next(overlay.glob(f"lib/python3*/site-packages/{name}"))


@pytest.mark.parametrize("goes", [True, False])
def test_what_stays_is_neither_written_nor_compiled_again(overlay: Path, wheels: Path, done: Cli, goes: bool) -> None:
    """Bytes behind the code of bytecode tell where it comes from. An old overlay that is kept shares no file."""
    for name in ("stays", "changes"):
        with of(overlay, f"{name}/__pycache__/part.*.pyc").open("ab") as stream:
            stream.write(b"of before")
    if not goes:
        (overlay / "notes").write_text("mine")
    before = of(overlay, "stays/part.py").stat()
    wheel(wheels, "changes", "2.0", files={"changes/part.py": "value = 2\n"})
    wheel(wheels, "tiny", "1.0")

    done("venv", "v", "tiny", "changes==2.0")

    after = of(overlay, "stays/part.py").stat()
    assert (after.st_ino == before.st_ino, after.st_mtime_ns) == (goes, before.st_mtime_ns)
    assert of(overlay, "stays/__pycache__/part.*.pyc").read_bytes().endswith(b"of before")
    assert not of(overlay, "changes/__pycache__/part.*.pyc").read_bytes().endswith(b"of before")
    assert of(overlay, "tiny/__pycache__/__init__.*.pyc").is_file()
    assert overlay.with_name("v.previous").exists() is not goes


def test_what_is_not_as_it_was_installed_is_installed_again(overlay: Path, wheels: Path, done: Cli) -> None:
    """A file that has gone, and a wheel of the same version with another content."""
    of(overlay, "stays/part.py").unlink()
    wheel(wheels, "changes", "1.0", files={"changes/part.py": "value = 3\n"})

    done("venv", "v", "stays")

    assert of(overlay, "stays/part.py").read_text() == "value = 1\n"
    assert of(overlay, "changes/part.py").read_text() == "value = 3\n"


@pytest.mark.parametrize("link_mode", ["copy", "hardlink"])
@pytest.mark.parametrize(("first", "mode", "expected"), [(0o077, 0o755, 0o644), (0o022, 0o700, 0o600)])
def test_kept_and_new_files_get_the_permissions_of_the_overlay(
    first: int,
    mode: int,
    expected: int,
    link_mode: str,
    no_base: None,
    wheels: Path,
    done: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that also belongs to uv's cache keeps its permissions there."""
    monkeypatch.setenv("UV_LINK_MODE", link_mode)
    wheel(wheels, "alpha", "1.0")
    wheel(wheels, "beta", "1.0")
    old = os.umask(first)
    try:
        done("venv", "v", "--no-base", "alpha")
        in_cache = {path: path.stat().st_mode for path in Path.home().rglob("*.py")}
        Path("v").chmod(mode)
        done("venv", "v", "beta")
    finally:
        os.umask(old)

    files = [path for path in Path("v").rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.stat().st_mode & 0o666 for path in files} == {expected}
    assert all(path.stat().st_mode == mode for path, mode in in_cache.items())
    assert not list(Path("v").rglob("*.uenvtool-copy"))


def test_an_image_whose_overlay_has_gone_keeps_what_it_had(overlay: Path, wheels: Path, done: Cli) -> None:
    done("venv", "v", "--squash")
    shutil.rmtree(overlay)
    wheel(wheels, "tiny", "1.0")

    done("venv", "v", "tiny", "--squash")

    assert [package["name"] for package in record("v")["packages"]] == ["changes", "stays", "tiny"]


def test_the_cache_lies_where_the_user_says_and_one_that_cannot_be_kept_is_not_missed(
    here: BaseHere, wheels: Path, done: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path.home()
    wheel(wheels, "tiny", "1.0")
    done("venv", "v", "tiny", "--dry-run")
    assert not (home / ".cache").exists()
    done("venv", "v", "tiny")
    assert [path.name for path in (home / ".cache").iterdir()] == ["uv"]

    monkeypatch.setenv("UV_CACHE_DIR", str(place / "mine"))
    done("venv", "w", "tiny")
    assert (place / "mine").is_dir()

    monkeypatch.delenv("UV_CACHE_DIR")
    (place / "file").touch()
    monkeypatch.setenv("HOME", str(place / "file"))
    done("venv", "x", "tiny")

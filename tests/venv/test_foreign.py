"""What somebody else put into an overlay, or changed in it, is found, told and kept when it is made again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import install, wheel
from tests.support.samples import sampled
from uenvtool.venv.manifest import MANIFEST, foreign, manifest_text

SITE = "lib/python3.12/site-packages"
VERSIONS = {"alpha": "1.0"}


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder like an overlay that the tool has just built, with one package."""
    folder = tmp_path / "v"
    for name in ("pyvenv.cfg", "bin/activate", "bin/alpha", f"{SITE}/hook.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"of the tool: {name}")
    (folder / "bin/python").symlink_to("python3")
    install(folder / SITE, wheel(tmp_path / "wheels", "alpha", "1.0"))
    (folder / ".uenvtool").mkdir()
    (folder / ".uenvtool" / MANIFEST).write_text(manifest_text(folder, {}))
    return folder


def put(folder: Path, name: str, text: str = "mine\n") -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def link(folder: Path, name: str, target: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)


def test_nothing_is_foreign_in_what_the_tool_built_and_python_ran_in(overlay: Path) -> None:
    put(overlay, f"{SITE}/alpha/__pycache__/__init__.cpython-312.pyc")
    put(overlay, ".uenvtool/image", "../v.squashfs\n")

    assert not foreign(overlay, VERSIONS)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda folder: put(folder, "bin/mytool"), "bin/mytool"),
        (lambda folder: put(folder, f"{SITE}/mymod.py"), f"{SITE}/mymod.py"),
        (lambda folder: put(folder, f"{SITE}/mypkg/sub/mod.py"), f"{SITE}/mypkg/"),
        (lambda folder: put(folder, f"{SITE}/alpha/more.py"), f"{SITE}/alpha/more.py"),
        (lambda folder: put(folder, "include/mine.h"), "include/"),
        (lambda folder: put(folder, "lib/libmine.so"), "lib/libmine.so"),
        (lambda folder: put(folder, ".notes"), ".notes"),
        (lambda folder: put(folder, "bin/activate", "patched"), "bin/activate"),
        (lambda folder: put(folder, "pyvenv.cfg", "patched"), "pyvenv.cfg"),
        (lambda folder: put(folder, f"{SITE}/alpha/__init__.py", "patched"), f"{SITE}/alpha/__init__.py"),
        (lambda folder: put(folder, f"{SITE}/alpha/__init__.py", "__version__ = '9.9'\n"), f"{SITE}/alpha/__init__.py"),
        (lambda folder: link(folder, "bin/python", "/usr/bin/python3"), "bin/python"),
        (lambda folder: link(folder, "bin/alpha", "/usr/bin/true"), "bin/alpha"),
        (lambda folder: link(folder, "data", "/scratch"), "data"),
        (lambda folder: os.mkfifo(folder / "pipe"), "pipe"),
    ],
)
def test_what_was_put_or_changed_is_found(overlay: Path, change: Callable[[Path], None], name: str) -> None:
    change(overlay)

    found = foreign(overlay, VERSIONS)

    assert found.names == (name,)
    assert not found.packages


@pytest.mark.parametrize(
    ("name", "version", "told"), [("alpha", "2.0", "alpha 2.0"), ("alpha", "1.0", "alpha 1.0"), ("beta", "3", "beta 3")]
)
def test_a_package_that_another_installer_brought_is_found_as_one(
    overlay: Path, tmp_path: Path, name: str, version: str, told: str
) -> None:
    """Also another build of the same version: its RECORD is not the one that the tool left."""
    if name == "alpha":
        shutil.rmtree(overlay / SITE / "alpha-1.0.dist-info")
    install(overlay / SITE, wheel(tmp_path / "other", name, version, files={f"{name}/core.py": "x = 1\n"}))

    found = foreign(overlay, VERSIONS)

    assert found.shown() == told


def test_of_an_overlay_without_sums_nobody_can_tell(overlay: Path) -> None:
    (overlay / ".uenvtool" / MANIFEST).write_text("[" * 10_000)

    assert foreign(overlay, VERSIONS).names == ("possibly any file (.uenvtool/files.json is missing or damaged)",)


def test_it_is_told_and_kept_and_a_folder_of_the_users_keeps_its_name(
    wheels: Path, no_base: None, done: Cli, tmp_path: Path
) -> None:
    wheel(wheels, "alpha", "1.0")
    wheel(wheels, "beta", "1.0")
    put(Path("v.previous"), "thesis.tex", "years of work")
    done("venv", "v", "--no-base", "alpha")
    quiet = done("venv", "v", "beta")
    (site,) = Path("v").glob("lib/python3*/site-packages")
    put(site / "alpha", "__init__.py", "patched")
    install(site, wheel(tmp_path / "by-hand", "bypip", "1.0"))

    dry = done("venv", "v", "beta", "--dry-run")
    answer = done("venv", "v", "beta")

    assert "uenvtool did not install" not in quiet.stderr
    for each in (dry, answer):
        before, resolving, _ = each.stderr.partition("resolving on")
        assert resolving
        assert re.search(r"uenvtool did not install: bypip 1.0, \S+/alpha/__init__.py; the old overlay is kept", before)
        assert "run `uenvtool venv v bypip==1.0`" in before
    assert "the old overlay is v.previous.2" in answer.stderr
    assert Path("v.previous/thesis.tex").read_text() == "years of work"
    assert next(Path("v.previous.2").glob("lib/python3*/site-packages/alpha/__init__.py")).read_text() == "patched"


@pytest.mark.slow
def test_an_image_of_the_users_keeps_its_name(wheels: Path, no_base: None, done: Cli) -> None:
    wheel(wheels, "alpha", "1.0")
    Path("v.previous.squashfs").write_text("not an image of this tool's")
    done("venv", "v", "--no-base", "alpha", "--squash")

    for version in ("1.1", "1.2"):
        wheel(wheels, "alpha", version)
        done("venv", "v", "--update", "--squash")

    assert Path("v.previous.squashfs").read_text() == "not an image of this tool's"
    assert sorted(path.name for path in Path().glob("*.squashfs")) == [
        "v.previous.2.squashfs",
        "v.previous.squashfs",
        "v.squashfs",
    ]


@pytest.mark.parametrize(
    "record",
    sampled(
        [
            "mine/__init__.py,,\nmine-1.0.dist-info/METADATA,,\nmine-1.0.dist-info/WHEEL,,\nmine-1.0.dist-info/RECORD,,\n",
            "mine/__init__.py,sha256=AAAA,1\nmine-1.0.dist-info/METADATA,,\nmine-1.0.dist-info/RECORD,,\n",
            "mine-1.0.dist-info/METADATA,,\nmine-1.0.dist-info/RECORD,,\n",
            "",
        ],
        keep=2,
    ),
)
def test_a_wheel_whose_record_is_incomplete_or_wrong_stays_installed(
    wheels: Path, no_base: None, done: Cli, tmp_path: Path, record: str
) -> None:
    wheel(wheels, "alpha", "1.0")
    path = wheel(tmp_path / "by-hand", "mine", "1.0", files={"mine/data/values.txt": "1\n"}, record=record)
    done("venv", "v", "--no-base", path)

    again = [done("venv", "v", path), done("venv", "v", "alpha")]

    assert "removed" not in "".join(answer.stdout for answer in again)
    assert "did not install" not in "".join(answer.stderr for answer in again)
    (site,) = Path("v").glob("lib/python3*/site-packages")
    assert (site / "mine/data/values.txt").read_text() == "1\n"
    assert (site / "mine-1.0.dist-info/METADATA").is_file()
    (site / "mine/data/values.txt").write_text("2\n")
    assert "mine/data/values.txt; the old overlay is kept" in done("venv", "v", "alpha").stderr


def test_a_patched_file_of_the_same_size_and_with_an_old_date_is_reported(
    wheels: Path, no_base: None, done: Cli
) -> None:
    wheel(wheels, "alpha", "1.0", files={"alpha/core.py": "x = 1\n"})
    done("venv", "v", "--no-base", "alpha")
    (file,) = Path("v").glob("lib/python3*/site-packages/alpha/core.py")
    file.write_text("x = 2\n")
    os.utime(file, (1, 1))
    wheel(wheels, "alpha", "2.0")

    answer = done("venv", "v", "alpha==2.0")

    assert "alpha/core.py; the old overlay is kept" in answer.stderr
    assert next(Path("v.previous").glob("lib/python3*/site-packages/alpha/core.py")).read_text() == "x = 2\n"

"""uenvtool.pyz: built from an index, run where nothing is: an empty home, no network, a /tmp that takes nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import needs, skip_without
from tests.support.project import CACHE, REAL_HOME
from tests.support.pythons import PYENV, pythons

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("single-file"), *needs("unshare", "mount")]
BARE = "mount -t tmpfs -o ro,noexec tmpfs /tmp 2>/dev/null && exec setpriv --bounding-set=-all -- "


@pytest.fixture(scope="module")
def single_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("single") / "uenvtool.pyz"
    kept = CACHE / "wheels-of-single-file"  # of an earlier run: then no index is asked
    kept.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, ROOT / "tools" / "pyz", file, "--wheels", kept]
    of_the_user = {name: value for name, value in os.environ.items() if name not in ("PIP_NO_INDEX", "PIP_CONFIG_FILE")}
    for more in ({"PIP_NO_INDEX": "1"}, {}):
        env = {**of_the_user, "HOME": str(REAL_HOME), **more}
        built = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=env)
        if built.returncode == 0:
            break
    else:
        skip_without("an index with the wheels", built.stderr.strip().splitlines()[-1])
    return file


def run(file: Path, home: Path, *words: str, python: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run it with an empty environment, without a network, with a read-only /tmp that runs nothing."""
    folder = f"{python.parent}:" if python else ""
    inside = f'{BARE} "$@"'
    return subprocess.run(
        ["unshare", "--mount", "--net", "--map-root-user", "bash", "-c", inside, "bash", file, *words],
        capture_output=True, text=True, check=False, cwd="/",
        env={"HOME": str(home), "PATH": f"{folder}/usr/bin:/bin"},
    )  # fmt: skip


@pytest.fixture
def home() -> Path:
    """An empty home outside of /tmp, which is hidden."""
    folder = CACHE / "single-file-home"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def moved(file: Path, home: Path) -> Path:
    """The file itself lies outside of /tmp too."""
    return Path(shutil.copy2(file, home / "u.pyz"))


def test_a_link_in_memory_is_not_followed(tmp_path: Path) -> None:
    """Anybody can make one there: it leads to a folder of the user's when it is looked at, elsewhere when it is run."""
    start = ROOT / "tools" / "pyz-start.sh"
    mine = tmp_path / "mine" / f"@ID@-{os.uname().machine}" / "bin"
    mine.mkdir(parents=True)
    (mine / "python").write_text("#!/bin/sh\necho started\n")
    (mine / "python").chmod(0o755)
    link = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="uenvtool-pyz-"))
    user = link.name.removeprefix("uenvtool-pyz-")
    env = {"USER": user, "PATH": "/usr/bin:/bin"}
    try:
        link.rmdir()
        link.symlink_to(tmp_path / "mine")
        linked = subprocess.run(["sh", start], capture_output=True, text=True, check=False, env=env)
        link.unlink()
        shutil.copytree(tmp_path / "mine", link)
        own = subprocess.run(["sh", start], capture_output=True, text=True, check=False, env=env)
    finally:
        link.unlink() if link.is_symlink() else shutil.rmtree(link)

    assert (linked.stdout, own.stdout) == ("", "started\n")


@pytest.mark.parametrize("version", pythons())
def test_it_works_where_nothing_is(single_file: Path, home: Path, version: str) -> None:
    file = moved(single_file, home)
    python = pythons()[version]

    listed = run(file, home, "list", python=python)
    job = run(file, home, "job", "--system", "clariden", "--account", "a", "--image", "u", "--", "python", "t.py")
    overlay = run(file, home, "venv", str(home / "mine"), "--base", str(python), python=python)

    assert listed.returncode == 0, listed.stderr
    assert "pytorch-2.6" in listed.stdout
    assert "#SBATCH --account=a" in job.stdout, job.stderr
    assert (home / "mine/bin/python").is_file(), overlay.stderr
    written = {path.relative_to(home).parts[:2] for path in home.rglob("*") if path.is_file()}
    assert {parts[0] for parts in written} == {"u.pyz", ".cache", "mine"}
    assert {parts[1] for parts in written if parts[0] == ".cache"} == {"uenvtool-pyz"}


def test_it_has_one_wheel_of_each_package_for_each_python_and_machine(single_file: Path) -> None:
    names = [name for name in zipfile.ZipFile(single_file).namelist() if name.endswith(".whl")]
    compiled = Counter((name.split("-")[0], "aarch64" in name) for name in names if not name.endswith("-any.whl"))

    assert {name for name, _ in compiled} == {"ahocorasick_rs", "pyre2", "pyyaml", "rpds_py", "uv"}
    assert all(count == (1 if name == "uv" else 5) for (name, _), count in compiled.items())
    assert len({name.split("-")[0] for name in names if name.endswith("-any.whl")}) + 42 == len(names)


def test_a_python_that_is_gone_is_replaced_and_an_old_one_alone_is_said(single_file: Path, home: Path) -> None:
    file = moved(single_file, home)
    run(file, home, "--version")
    (link,) = home.glob(".cache/uenvtool-pyz/*/bin/python")
    link.unlink()
    link.symlink_to("/user-environment/gone/bin/python3")

    again = run(file, home, "--version")

    assert again.stdout.startswith("uenvtool "), again.stderr
    assert os.access(link, os.X_OK)


def test_without_pip_it_says_which_python_makes_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    words = [tmp_path / "v/bin/python", ROOT / "tools" / "pyz", tmp_path / "f"]
    made = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (made.returncode, "hint: start it with a Python that has pip" in made.stderr) == (1, True)


def test_an_old_python_says_which_one_is_needed(single_file: Path) -> None:
    old = sorted(PYENV.glob("3.[69].*/bin/python3"))
    if not old:
        skip_without("an old Python", "`pyenv install 3.6`")
    for python in old:
        ran = subprocess.run([python, single_file, "list"], capture_output=True, text=True, check=False)

        assert ran.returncode == 3
        assert ran.stderr.startswith("uenvtool: needs Python 3.10 to 3.14, and this is 3.")
        assert len(ran.stderr.splitlines()) == 1

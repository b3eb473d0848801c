"""Test uenvtool.pyz in an empty home directory, without a network, and with a read-only /tmp."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.real.test_install_script import run as install
from tests.support.index import environment, fail_or_skip_without_index
from tests.support.needs import needs, skip_without
from tests.support.programs import program
from tests.support.project import CACHE
from tests.support.pythons import PYENV, pythons
from tests.support.samples import sampled

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("single-file"), *needs("unshare", "mount")]
WHEELS = CACHE / "wheels-of-single-file"
"""The wheels of an earlier run, which are not downloaded again."""
BARE = "mount -t tmpfs -o ro,noexec tmpfs /tmp 2>/dev/null && exec setpriv --bounding-set=-all -- "


@pytest.fixture(scope="module")
def single_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("single") / "uenvtool.pyz"
    WHEELS.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, ROOT / "tools" / "pyz", file, "--wheels", WHEELS]
    for more in ({"PIP_NO_INDEX": "1"}, {}):
        env = {**environment(), **more}
        built = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=env)
        if built.returncode == 0:
            break
    else:
        fail_or_skip_without_index(built.stderr)
    return file


def run(words: list[str | Path], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, cwd="/", env=env)


@dataclass(frozen=True)
class Bare:
    """The file in an empty home directory outside of /tmp."""

    home: Path
    file: Path

    def run(self, *words: str | Path, python: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the file with an empty environment, without a network, and with a read-only noexec /tmp."""
        inside = ["unshare", "--mount", "--net", "--map-root-user", "bash", "-c", f'{BARE} "$@"', "bash"]
        first = f"{python.parent}:" if python else ""
        return run([*inside, self.file, *words], HOME=str(self.home), PATH=f"{first}/usr/bin:/bin")


@pytest.fixture
def bare(single_file: Path) -> Iterator[Bare]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="single-file-home-", dir=CACHE, ignore_cleanup_errors=True) as home:
        yield Bare(Path(home), Path(shutil.copy2(single_file, Path(home) / "u.pyz")))


def test_a_link_in_memory_is_not_followed(tmp_path: Path) -> None:
    """Anybody can make one there: it leads to a folder of the user's when it is looked at, elsewhere when it is run."""
    mine = program(tmp_path / "mine" / f"@ID@-{os.uname().machine}" / "bin" / "python", "echo started").parents[2]
    link = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="uenvtool-pyz-"))
    start = ["sh", ROOT / "tools" / "pyz-start.sh"]
    env = {"USER": link.name.removeprefix("uenvtool-pyz-"), "PATH": "/usr/bin:/bin"}
    try:
        link.rmdir()
        link.symlink_to(mine)
        linked = run(start, **env)
        link.unlink()
        shutil.copytree(mine, link)
        own = run(start, **env)
    finally:
        link.unlink() if link.is_symlink() else shutil.rmtree(link)

    assert (linked.stdout, own.stdout) == ("", "started\n")


@pytest.mark.parametrize("version", sampled(pythons()))
def test_it_works_where_nothing_is(bare: Bare, version: str) -> None:
    python = pythons()[version]

    listed = bare.run("list", python=python)
    job = bare.run("job", "--system", "clariden", "--account", "a", "--image", "u", "--", "python", "t.py")
    overlay = bare.run("venv", bare.home / "mine", "--base", python, python=python)

    assert "pytorch-2.6" in listed.stdout, listed.stderr
    assert "#SBATCH --account=a" in job.stdout, job.stderr
    assert (bare.home / "mine/bin/python").is_file(), overlay.stderr
    written = {path.relative_to(bare.home).parts[:2] for path in bare.home.rglob("*") if path.is_file()}
    assert {parts[0] for parts in written} == {"u.pyz", ".cache", "mine"}
    assert {parts[1] for parts in written if parts[0] == ".cache"} == {"uenvtool-pyz"}


def test_it_has_one_wheel_of_each_package_for_each_python_and_machine(single_file: Path) -> None:
    names = [name for name in zipfile.ZipFile(single_file).namelist() if name.endswith(".whl")]
    compiled = Counter((name.split("-")[0], "aarch64" in name) for name in names if not name.endswith("-any.whl"))

    assert {name for name, _ in compiled} == {"ahocorasick_rs", "pyre2", "pyyaml", "rpds_py", "uv"}
    assert all(count == (1 if name == "uv" else 5) for (name, _), count in compiled.items())
    assert len({name.split("-")[0] for name in names if name.endswith("-any.whl")}) + 42 == len(names)


def test_a_python_that_is_gone_is_replaced(bare: Bare) -> None:
    bare.run("--version")
    (link,) = bare.home.glob(".cache/uenvtool-pyz/*/bin/python")
    link.unlink()
    link.symlink_to("/user-environment/gone/bin/python3")

    again = bare.run("--version")

    assert again.stdout.startswith("uenvtool "), again.stderr
    assert os.access(link, os.X_OK)


def test_without_pip_it_says_which_python_makes_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)

    made = run([tmp_path / "v/bin/python", ROOT / "tools" / "pyz", tmp_path / "f"])

    assert (made.returncode, "hint: run tools/pyz with a Python that has pip" in made.stderr) == (1, True)


def test_an_old_python_says_which_one_is_needed(single_file: Path) -> None:
    old = sorted(PYENV.glob("3.[69].*/bin/python3"))
    if not old:
        skip_without("an old Python", "`pyenv install 3.6`")
    for python in old:
        ran = run([python, single_file, "list"])

        assert ran.returncode == 3
        (line,) = ran.stderr.splitlines()
        assert line.startswith("uenvtool: needs Python 3.10 to 3.14, not 3.")


@pytest.mark.usefixtures("single_file")
def test_its_wheels_install_it_without_a_network_again_over_a_dead_one_and_it_goes_away(place: Path) -> None:
    home, wheels = place / "home", shutil.copytree(WHEELS, place / "wheels")
    command = home / ".local/bin/uenvtool"
    command.parent.mkdir(parents=True)
    command.symlink_to("/gone/bin/uenvtool")

    first = install(home, wheels)
    (venv,) = (home / ".local/share/uenvtool").iterdir()
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/user-environment/gone/bin/python3")
    dead = subprocess.run([command, "list"], capture_output=True, text=True, check=False)
    again = install(home, wheels)
    works = subprocess.run([command, "list"], capture_output=True, text=True, check=False)
    gone = install(home, "--uninstall")

    assert first.returncode == 0, first.stderr
    assert "points to a missing file and is replaced" in first.stdout
    assert dead.returncode == 3
    assert "its Python no longer exists; run tools/install" in dead.stderr
    assert "/user-environment/gone/bin/python3" in again.stdout, again.stderr
    assert "pytorch-2.6" in works.stdout, works.stderr
    assert gone.returncode == 0, gone.stderr
    assert list(home.rglob("*")) == []

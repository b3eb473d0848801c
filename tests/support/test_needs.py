"""A test that starts a missing program is skipped automatically, and a run counts one skip per program."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import needs
from tests.support.project import ROOT

REACHES = """
import subprocess
from pathlib import Path
import pytest
from tests.support.needs import needs
from uenvtool.image.programs import find_program

SUBMIT = "job -s clariden -A a --recipe pytorch-2.6 --submit -- python train.py".split()

@pytest.fixture(scope="module")
def traced():
    subprocess.run(["strace", "true"], check=True)

@pytest.mark.parametrize("code", [0, 2])
def test_skips_at_the_command_line(cli, code):
    assert cli(*SUBMIT).code == code

def test_skips_at_a_call():
    find_program("unsquashfs")

def test_skips_at_a_process(traced):
    raise AssertionError

@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=needs("zsh"))])
def test_skips_by_its_mark(shell, number):
    assert shell == "bash"

def test_passes_without_programs(cli, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cli(*SUBMIT).code == 3

def test_fails_without_a_file():
    Path("absent").read_text()

def test_fails_without_its_own_program():
    subprocess.run(["./strace"], check=True)

def test_fails_although_the_program_is_installed():
    raise FileNotFoundError(2, "No such file or directory", "bash")

def test_fails_after_a_program_was_hidden(cli, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cli(*SUBMIT).code == 2
"""
ABSENT = {"sbatch", "strace", "unsquashfs", "zsh"}


def ended(place: Path) -> list[str]:
    """Return the lines that pytest prints about REACHES on a machine without ABSENT."""
    if any(shutil.which(name, path="/usr/sbin:/sbin") for name in ABSENT):
        needs.skip_without("a machine whose /usr/sbin has none of these programs", "run the tests elsewhere")
    (place / "bin").mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name not in ABSENT and not (place / "bin" / program.name).is_symlink():
                (place / "bin" / program.name).symlink_to(program)
    (place / "test_reaches.py").write_text(REACHES)
    words = ["-m", "pytest", "-p", "tests.conftest", "-rA", "--tb=no", "-p", "no:cacheprovider", "test_reaches.py"]
    env = {**os.environ, "PATH": str(place / "bin"), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, *words], cwd=place, env=env, capture_output=True, text=True, check=False)
    return ran.stdout.splitlines()


def test_a_test_that_reaches_an_absent_program_skips_and_the_run_counts_one_skip_per_program(place: Path) -> None:
    lines = ended(place)

    failed = {line.split("::")[1].split()[0] for line in lines if line.startswith(("FAILED", "ERROR"))}
    passed = {line.split("::")[1].split("[")[0] for line in lines if line.startswith("PASSED")}
    skipped = [re.sub(r".*: needs", "needs", line) for line in lines if line.startswith("SKIPPED")]

    assert {name.split("_")[1] for name in failed} == {"fails"}
    assert len(failed) == 4
    assert passed == {"test_passes_without_programs", "test_skips_by_its_mark"}
    assert sorted(skipped) == [
        "needs sbatch: apt-get install slurm-wlm (2 tests)",
        "needs strace: apt-get install strace",
        "needs unsquashfs: apt-get install squashfs-tools",
        "needs zsh: apt-get install zsh (3 tests)",
    ]
    assert re.search(r"4 failed, 4 passed, 4 skipped in", lines[-1])
    assert "7 of 15 tests were skipped; missing: zsh (3), sbatch (2), unsquashfs (1), strace (1)" in lines
    assert "as root: apt-get install slurm-wlm squashfs-tools strace zsh" in lines


def test_the_line_that_installs_programs_has_known_packages_only() -> None:
    ways = [needs.how_to_get("mksquashfs"), "apt-get install lmod, or environment-modules", "apt-get install gcc g++"]

    _, by_apt, others = needs.summary([f"needs x: {way}" for way in ways], 9)

    assert by_apt == "as root: apt-get install g++ gcc squashfs-tools"
    assert others.startswith("other programs: see CONTRIBUTING.md")


def test_debian_has_every_package_of_the_line_that_installs_programs(place: Path) -> None:
    _, line = needs.summary([f"needs {program}: {needs.how_to_get(program)}" for program in needs.PACKAGES], 99)
    names = line.removeprefix("as root: apt-get install ").split()

    keeps = (
        "-o",
        f"Dir::Cache={place}",
        "-o",
        f"Dir::Log={place}",
    )  # as root, apt writes its caches and logs there
    words = ["apt-get", *keeps, "--simulate", "install", "--no-install-recommends"]
    ran = subprocess.run([*words, *names], capture_output=True, text=True, check=False)

    if "Unable to locate package zsh" in ran.stderr:
        needs.skip_without("apt's package lists", "apt-get update")
    assert ran.returncode == 0, ran.stderr

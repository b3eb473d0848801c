"""Test the lines of jobs that load modules, with real Lmod or Tcl modules."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.needs import skip_without

pytestmark = [pytest.mark.real, pytest.mark.slow]
INITS = (Path("/usr/share/lmod/lmod/init/bash"), Path("/usr/share/modules/init/bash"))
JOBS = [
    ("frontier", "conda"),
    ("frontier", "modules"),
    ("isambard-ai", "modules"),
    ("isambard-ai", "apptainer"),
    ("lumi", "singularity"),
    ("olivia", "apptainer"),
    ("perlmutter", "modules"),
]


@pytest.fixture(scope="module")
def init() -> Path:
    found = next((path for path in INITS if path.is_file()), None)
    return found or skip_without("environment modules", "apt-get install lmod, or environment-modules")


def loading(cli: Cli, system: str, runtime: str) -> str:
    """Return the lines of a job that load modules."""
    image = ("--image", "docker://nvcr.io/a:1") if runtime in ("apptainer", "singularity") else ()
    answer = cli(
        "job", "-s", system, "--runtime", runtime, "-A", "p", "--time", "9", *image, "--", "bin/python", "t.py"
    )
    assert answer.code == 0, answer.stderr
    return "".join(line for line in answer.stdout.splitlines(True) if line.startswith("module "))


def site(lines: str, folder: Path) -> str:
    """Create the modules that the lines load in one directory, and return the lines for it."""
    for name in re.findall(r"(?m)^module load (\S+)$", lines):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#%Module1.0\nappend-path SEEN {name}\n")
    return re.sub(r"(?m)^module use .*$", f"module use {shlex.quote(str(folder))}", lines)


def run(init: Path, lines: str, folder: Path, default: str = "") -> subprocess.CompletedProcess[str]:
    """Run lines with a directory of modules. default: the module that is loaded at login."""
    script = f'. {init}\nset -e\n{lines}echo "seen=$SEEN stale=$STALE"\n'
    bare = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "MODULEPATH": str(folder)}
    bare["__MODULES_LMINIT"] = f"module use --append {folder}" + (default and f":module load {default}")  # Tcl's
    if default:
        bare["LMOD_SYSTEM_DEFAULT_MODULES"] = default
    return subprocess.run(["bash", "-c", script], env=bare, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("system", "runtime"), JOBS)
def test_a_job_loads_what_it_needs_and_nothing_of_the_login_shell(
    init: Path, cli: Cli, tmp_path: Path, system: str, runtime: str
) -> None:
    lines = loading(cli, system, runtime)
    (tmp_path / "mine").write_text("#%Module1.0\nsetenv STALE yes\n")

    ran = run(init, "module load mine\n" + site(lines, tmp_path), tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"seen={':'.join(re.findall(r'module load (.*)', lines))} stale=\n"


def test_a_site_with_modules_of_its_own_gets_them_back(init: Path, cli: Cli, tmp_path: Path) -> None:
    lines = site(loading(cli, "frontier", "modules"), tmp_path)
    (tmp_path / "default").write_text("#%Module1.0\nprepend-path SEEN default\n")

    ran = run(init, lines, tmp_path, "default")

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("seen=default:PrgEnv-gnu/"), ran.stderr


def test_a_module_that_is_not_there_ends_the_job_before_the_training(init: Path, cli: Cli, tmp_path: Path) -> None:
    lines = site(loading(cli, "frontier", "modules"), tmp_path)
    (tmp_path / "rccl-net-plugin").unlink()

    ran = run(init, lines, tmp_path)

    assert ran.returncode != 0
    assert "rccl-net-plugin" in ran.stderr
    assert "seen=" not in ran.stdout

"""Test the steps of jobs with an environment, in each runtime: its packages come first, and it must be mounted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Write
from tests.job.stand_ins import packed_overlay

CODE = "import both, inbase, site; print(both.name, inbase.name, bool(site.ENABLE_USER_SITE))"
COMMAND = ("--", "python", "-c", CODE)
STEP = re.compile(r"""bash -c '\n((?:'\\''|[^'])*)' \w+ "\$\{command""")
MINOR = f"{sys.version_info[0]}.{sys.version_info[1]}"
CONFIG = f"home = {{home}}\ninclude-system-site-packages = true\nversion = {MINOR}.0\n"
SITE = f"lib/python{MINOR}/site-packages"
A = ("--account", "g1")
RUNTIMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "uenv": ("/user-environment/env/default/bin", ("-s", "clariden", *A, "--recipe", "pytorch-2.6")),
    "ce": ("/opt/conda/bin", ("-s", "clariden", *A, "--runtime", "ce", "--image", "nvcr.io#nvidia/pytorch:25.06-py3")),
    "apptainer": ("/opt/conda/bin", ("-s", "olivia", *A)),
    "singularity": ("/opt/conda/bin", ("-s", "lumi", *A)),
    "podman-hpc": ("/opt/conda/bin", ("-s", "perlmutter", *A, "--runtime", "podman-hpc", "--image", "a/b:1")),
    "shifter": ("/opt/conda/bin", ("-s", "perlmutter", *A, "--runtime", "shifter", "--image", "a/b:1")),
    "conda": ("{place}/env/bin", ("-s", "frontier", *A, "--image", "./env")),
    "modules": ("/opt/x/bin", ("-s", "isambard-ai", *A, "--runtime", "modules")),
}
"""The directory of an environment's Python, and the options of a job, by runtime."""


def environment(place: Path) -> dict[str, str]:
    """Make the environment `mine`, its base in PYTHONPATH and a home; return the variables of a step."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", "mine"], check=True)
    home = Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(place / "home/.local")}))
    for folder, name in ((place / "mine" / SITE, "venv"), (place / "base", "base"), (home, "home")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "both.py").write_text(f"name = {name!r}\n")
    (place / "base" / "inbase.py").write_text("name = 'base'\n")
    (home / "inbase.py").write_text("name = 'home'\n")
    of_task = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(place / "base"),
        "HOME": str(place / "home"),
        "LOGS": str(place),
        **of_task,
    }


def step_of(cli: Cli, place: Path, *words: str) -> str:
    """Return the program that each task of a job runs."""
    answer = cli("job", *words, "-o", "job.sh", *COMMAND)
    assert answer.code == 0, answer.stderr
    found = STEP.search((place / "job.sh").read_text())
    assert found
    return found[1].replace("'\\''", "'")


@contextmanager
def on_base(place: Path, home: str) -> Iterator[None]:
    """Give `mine` another base while a job is written, because a job rejects a Python of this machine."""
    config = place / "mine" / "pyvenv.cfg"
    real = config.read_text()
    config.write_text(CONFIG.format(home=home.format(place=place)))
    yield
    config.write_text(real)


def run(step: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = ["bash", "-c", step, "rank", *COMMAND[1:]]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_its_packages_come_before_those_of_the_base_and_of_the_home(
    cli: Cli, place: Path, write: Write, runtime: str
) -> None:
    home, words = RUNTIMES[runtime]
    env = environment(place)
    write("env/bin/python", "").chmod(0o755)
    with on_base(place, home):
        step = step_of(cli, place, *words, "--venv", "mine", "--launcher", "srun")

    ran = run(step, env)
    in_home = run(step, {**env, "PYTHONPATH": "", "PYTHONUSERBASE": str(place / "home/.local")})
    with_home = run(step, {**env, "PYTHONHOME": "/nowhere"})

    assert ran.stdout == "venv base False\n", ran.stderr
    assert in_home.stdout == "venv home True\n", in_home.stderr  # the base of the newer uenvs is in PYTHONUSERBASE
    assert with_home.stdout == ran.stdout, with_home.stderr


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_activation_has_the_same_order_as_the_step(cli: Cli, place: Path, runtime: str) -> None:
    env = {**environment(place), "UENVTOOL_VENV": "mine", "UENVTOOL_RUNTIME": runtime, "UENVTOOL_QUIET": "1"}
    script = ROOT / "activate" / f"{RUNTIMES[runtime][1][1]}.sh"
    words = ["bash", "-c", f'source "{script}" && "$@"', "rank", *COMMAND[1:]]
    in_home = {"PYTHONPATH": "", "PYTHONUSERBASE": str(place / "home/.local")}

    printed = [
        subprocess.run(words, env={**env, **more}, capture_output=True, text=True, check=False, timeout=60)
        for more in ({}, in_home)
    ]

    # In a uenv, Python also finds the view's packages through PYTHONUSERBASE.
    assert [ran.stdout for ran in printed] == ["venv base False\n", "venv home True\n"], printed[0].stderr


def test_a_variable_of_the_user_stays(cli: Cli, place: Path) -> None:
    env = environment(place)
    home, words = RUNTIMES["uenv"]
    with on_base(place, home):
        step = step_of(cli, place, *words, "--venv", "mine", "--launcher", "srun", "--env", "PYTHONPATH=/src")

    ran = run(step, {**env, "PYTHONNOUSERSITE": ""})

    assert ran.stdout == "base base True\n", ran.stderr


def test_a_job_on_this_machine_has_the_same_order(cli: Cli, place: Path) -> None:
    env = environment(place)

    assert cli("job", "-s", "local", "--venv", "mine", "--launcher", "none", "-o", "job.sh", *COMMAND).code == 0
    ran = subprocess.run(["bash", "job.sh"], env=env, capture_output=True, text=True, check=False, timeout=60)

    assert ran.stdout == "venv base False\n", ran.stderr


def test_a_pod_has_the_same_order(cli: Cli, place: Path) -> None:
    env = environment(place)
    words = ("-s", "rcp", "--image", "r/x:1", "--pvc", "a:/a", "--venv", "mine", "--launcher", "none", "-o", "job.sh")
    with on_base(place, "/opt/conda/bin"):
        assert cli("job", *words, *COMMAND).code == 0

    ran = subprocess.run(["bash", "job.sh"], env=env, capture_output=True, text=True, check=False, timeout=60)

    assert ran.stdout.endswith("venv base False\n"), ran.stderr


IN_CONTAINER: dict[str, object] = {"kind": "container", "in_container": True}
PACKED: dict[str, tuple[dict[str, object], str]] = {
    "uenv": ({"kind": "uenv", "python": "/user-environment/env/default/bin/python"}, "/user-tools"),
    "ce": (IN_CONTAINER, "/user-tools"),
    "apptainer": (IN_CONTAINER, "/user-tools"),
    "singularity": (IN_CONTAINER, "/user-tools"),
    "conda": ({"kind": "environment", "python": "{place}/env/bin/python"}, "/mnt/bb/u/overlay-7"),
    "modules": ({"kind": "environment", "python": "/opt/x/bin/python"}, "/overlay-7"),
}
"""The base of a packed overlay, and the end of the overlay's directory on a node, by runtime."""


@pytest.mark.parametrize("runtime", PACKED)
def test_an_overlay_that_is_not_mounted_ends_the_step(cli: Cli, place: Path, write: Write, runtime: str) -> None:
    base, folder = PACKED[runtime]
    write("env/bin/python", "").chmod(0o755)
    base = {name: value.format(place=place) if isinstance(value, str) else value for name, value in base.items()}
    packed_overlay(place, base)
    (place / "it's $(mine).squashfs").write_bytes((place / "mine.squashfs").read_bytes())
    names = ["mine.squashfs"] if runtime in ("uenv", "ce", "apptainer", "singularity") else ["it's $(mine).squashfs"]

    for name in names:
        step = step_of(cli, place, *RUNTIMES[runtime][1], "--venv", name)
        ran = run(step, {**os.environ, "SLURM_JOB_ID": "7", "USER": "u"})

        assert ran.returncode == 1
        assert not ran.stdout
        assert re.fullmatch(rf"overlay {re.escape(name)} not found: \S+ has no \S*{folder}/bin/python\n", ran.stderr)


@pytest.mark.parametrize("runtime", [*RUNTIMES, "local", "runai"])
def test_an_unpacked_overlay_that_is_not_mounted_ends_the_step(
    cli: Cli, place: Path, write: Write, runtime: str
) -> None:
    home, words = RUNTIMES.get(runtime, (str(Path(sys.executable).parent), ("-s", "local", "--launcher", "none")))
    if runtime == "runai":
        home, words = "/opt/x", ("-s", "rcp", "--image", "r/x:1", "--pvc", "a:/a", "--launcher", "none")
    write("env/bin/python", "").chmod(0o755)
    write("mine/pyvenv.cfg", CONFIG.format(home=home.format(place=place)))
    answer = cli("job", *words, "--venv", "mine", "-o", "job.sh", *COMMAND)
    assert answer.code == 0, answer.stderr
    found = STEP.search((place / "job.sh").read_text())

    ran = run(found[1].replace("'\\''", "'"), dict(os.environ)) if found else run("exec bash job.sh", dict(os.environ))

    assert (ran.returncode, ran.stdout) == (1, "")
    assert re.search(rf"overlay \S*mine not found: \S+ has no {place}/mine/bin/python\n\Z", ran.stderr)

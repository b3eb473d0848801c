"""Test commands that query a program which does not answer: each command ends and reports the program."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.programs import program
from uenvtool.core import processes

COMMANDS = {
    "job on this machine": ("nvidia-smi", "job -s local -- python t.py"),
    "job on this machine, dry run": ("nvidia-smi", "job --runtime local -s local --dry-run -- python t.py"),
    "new system": ("nvidia-smi", "new system mine --here"),
    "new system, with a silent Slurm": ("sinfo", "new system mine --here"),
    "attach": ("squeue", "attach 5"),
}


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(processes, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(processes, "QUERY_SECONDS", 0.3)
    monkeypatch.setenv("PATH", f"{place}/bin")  # real programs may be slower than this limit


def silent(place: Path, name: str) -> None:
    program(place / "bin" / name, "exec /bin/sleep 99")


@pytest.mark.parametrize("case", COMMANDS)
def test_a_command_ends_with_an_error(cli: Cli, place: Path, case: str) -> None:
    name, words = COMMANDS[case]
    silent(place, name)
    program(place / "bin" / "srun", "exit 1")

    answer = cli(*shlex.split(words))

    assert answer.code == 4, answer.stderr
    assert answer.stderr.startswith(f"error: {name} does not answer\nhint: find the cause")
    assert answer.stdout == ""


@pytest.mark.parametrize("names", [("scontrol",), ("sacct",), ("scontrol", "sacct")], ids="+".join)
def test_doctor_reports_silent_programs_of_slurm(cli: Cli, place: Path, names: tuple[str, ...]) -> None:
    for name in ("scontrol", "sacct"):
        program(place / "bin" / name, "exit 1")
    for name in names:
        silent(place, name)

    answer = cli("doctor", "--job", "5", "--json")

    details = [found["detail"] for found in json.loads(answer.stdout)["findings"] if found["id"] == "no-answer"]
    assert (answer.code, details) == (1, [f"{name} does not answer" for name in names])


def test_doctor_reports_a_silent_network_driver(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent(place, "fi_info")
    monkeypatch.setenv("FI_PROVIDER", "cxi")

    answer = cli("doctor", "--json")

    assert "fi_info does not answer" in [found["detail"] for found in json.loads(answer.stdout)["findings"]]


@pytest.mark.slow
def test_the_limit_is_ten_seconds(place: Path) -> None:
    silent(place, "nvidia-smi")
    command = [sys.executable, "-m", "uenvtool", "job", "-s", "local", "--dry-run", "--", "python", "t.py"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert done.stderr.startswith("waiting for nvidia-smi\nerror: nvidia-smi does not answer\n")

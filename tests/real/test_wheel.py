"""Test that the wheel works outside of a checkout, in a new environment and another directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.index import environment, fail_or_skip_without_index

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_the_wheel_does_the_main_job(place: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (place / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    python = place / "venv" / "bin" / "python"
    words = [python, "-m", "pip", "install", "-q", wheel]
    installed = subprocess.run(words, check=False, capture_output=True, text=True, env=environment())
    if installed.returncode != 0:
        fail_or_skip_without_index(installed.stderr)
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    command = [place / "venv" / "bin" / "uenvtool", "build", "pytorch-2.6", "--no-concretize"]

    done = subprocess.run(command, cwd=elsewhere, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    written = (elsewhere / "envs/pytorch-2.6/clariden-gh200/spack.yaml").read_text()
    assert written == (ROOT / "envs/pytorch-2.6/clariden-gh200/spack.yaml").read_text()
    again = [place / "venv" / "bin" / "uenvtool", "activate", "--check", "-o", ROOT / "activate"]
    assert subprocess.run(again, cwd=elsewhere, check=False).returncode == 0
    page = place / "venv/share/man/man1/uenvtool-check.1"
    assert "--select" in page.read_text().replace("\\-", "-")
    overlay = [place / "venv" / "bin" / "uenvtool", "venv", "./mine", "--base", sys.executable]
    made = subprocess.run(overlay, cwd=elsewhere, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    look = "import sys, pytest; print(sys.prefix)"  # pytest is the base's
    looked = subprocess.run([elsewhere / "mine/bin/python", "-c", look], check=True, capture_output=True, text=True)
    assert looked.stdout.strip() == str(elsewhere / "mine")

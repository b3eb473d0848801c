"""Packages on top of an image's Python: `scripts/packages.py`, with real pip, in a Python that has a torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pip
import pytest

from tests.conftest import ROOT
from tests.support.overlays import install, wheel
from uenvtool.venv.fit import rules

SCRIPT = ROOT / "uenvtool/container/scripts/packages.py"
KEPT = [f"--keep={rule.pattern}" for rule in rules()] + [
    f"--except={name}" for rule in rules() for name in rule.harmless
]
NVIDIA = "2.8.0a0+5228986c39.nv25.6"
"""A version as NVIDIA's images have it."""


class Python:
    """A Python with packages of its own; pip finds others in a folder of wheels alone."""

    def __init__(self, folder: Path) -> None:
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "python"], check=True)
        self.program = folder / "python/bin/python"
        self.site = next((folder / "python/lib").glob("python3*")) / "site-packages"
        shutil.copytree(Path(pip.__file__).parent, self.site / "pip")
        for name, version in (("torch", NVIDIA), ("triton", "3.3.0"), ("numpy", "1.26.4")):
            install(self.site, wheel(folder, name, version))

    def add(self, *packages: str) -> subprocess.CompletedProcess[str]:
        """Run the script as a build step does."""
        env = {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        command = [self.program, SCRIPT, *KEPT, *packages]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def version(self, module: str) -> str:
        """The version of the module that is imported."""
        command = [self.program, "-c", f"import {module}; print({module}.__version__)"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)


@pytest.mark.slow
def test_a_package_that_needs_torch_takes_the_bases(python: Python) -> None:
    wheel(python.wheels, "metatrain", "2025.1", requires=["torch>=2.1", "numpy"])
    wheel(python.wheels, "torch", "2.9.0")

    added = python.add("metatrain")

    assert added.returncode == 0, added.stderr
    assert python.version("metatrain") == "2025.1"
    assert python.version("torch") == NVIDIA


def test_a_package_that_needs_another_torch_ends_the_build(python: Python) -> None:
    wheel(python.wheels, "newer", "1.0", requires=["torch>=2.9"])
    wheel(python.wheels, "torch", "2.9.0")

    added = python.add("newer")

    assert added.returncode == 1
    assert "uenvtool: pip cannot install these packages beside what the base has, which stays:" in added.stderr
    assert f"  torch {NVIDIA}\n" in added.stderr
    assert python.version("torch") == NVIDIA


def test_a_package_that_brings_a_second_nccl_ends_the_build(python: Python) -> None:
    wheel(python.wheels, "bringer", "1.0", requires=["nvidia-nccl-cu12"])
    wheel(python.wheels, "nvidia-nccl-cu12", "2.27.3")

    added = python.add("bringer")

    assert added.returncode == 1
    assert "uenvtool: pip changed nvidia-nccl-cu12 from nothing to 2.27.3" in added.stderr


@pytest.mark.slow
def test_a_package_of_nvidias_without_a_library_is_no_second_nccl(python: Python) -> None:
    wheel(python.wheels, "monitor", "1.0", requires=["nvidia-ml-py"])
    wheel(python.wheels, "nvidia-ml-py", "12.0")

    assert python.add("monitor").returncode == 0


@pytest.mark.slow
def test_a_package_that_is_not_protected_may_become_newer(python: Python) -> None:
    wheel(python.wheels, "numpy", "2.1.0")

    assert python.add("numpy>=2").returncode == 0
    assert python.version("numpy") == "2.1.0"

"""Test packages on an image's Python: `scripts/packages.py`, with real pip, in a Python that has torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pip
import pytest

from tests.conftest import ROOT
from tests.support.overlays import install, wheel
from uenvtool.venv.compat import rules

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

    def add(self, *packages: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the script as a build step does."""
        found = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)} if env is None else env
        env = {"PATH": "/usr/bin:/bin", **found}
        command = [self.program, SCRIPT, *KEPT, *packages]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def remove(self, name: str) -> None:
        """Take a package away."""
        for path in self.site.glob(f"{name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def version(self, module: str) -> str:
        """The version of the module that is imported."""
        command = [self.program, "-c", f"import {module}; print({module}.__version__)"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)


STAYS = "uenvtool: pip cannot install these packages together with the packages of the base, which must not change:"


@pytest.mark.parametrize(
    ("index", "wanted", "says", "versions"),
    [
        pytest.param(
            ["metatrain 2025.1 torch>=2.1 numpy", "torch 2.9.0"], "metatrain", [],
            {"metatrain": "2025.1", "torch": NVIDIA}, id="torch is the base's", marks=pytest.mark.slow,
        ),
        pytest.param(
            ["newer 1.0 torch>=2.9", "torch 2.9.0"], "newer", [STAYS, f"  torch {NVIDIA}\n"],
            {"torch": NVIDIA}, id="another torch",
        ),
        pytest.param(
            ["bringer 1.0 nvidia-nccl-cu12", "nvidia-nccl-cu12 2.27.3"], "bringer",
            ["uenvtool: pip changed nvidia-nccl-cu12 from nothing to 2.27.3"], {}, id="a second NCCL",
        ),
        pytest.param(
            ["monitor 1.0 nvidia-ml-py", "nvidia-ml-py 12.0"], "monitor", [], {},
            id="NVIDIA's, without a library", marks=pytest.mark.slow,
        ),
        pytest.param(
            ["numpy 2.1.0"], "numpy>=2", [], {"numpy": "2.1.0"}, id="not protected", marks=pytest.mark.slow
        ),
    ],
)  # fmt: skip
def test_what_the_base_protects_stays_or_the_build_ends(
    python: Python, index: list[str], wanted: str, says: list[str], versions: dict[str, str]
) -> None:
    for package in index:
        name, version, *requires = package.split()
        wheel(python.wheels, name, version, requires=requires)

    added = python.add(wanted)

    assert added.returncode == int(bool(says)), added.stderr
    assert [part for part in says if part not in added.stderr] == []
    assert {name: python.version(name) for name in versions} == versions


def test_a_base_without_a_torch_gets_that_of_an_index_beside_pypi(python: Python, tmp_path: Path) -> None:
    python.remove("torch")
    folder = tmp_path / "simple/torch"
    folder.mkdir(parents=True)
    built = wheel(python.wheels, "torch", "2.9.0", requires=["nvidia-nccl-cu12"])
    wheel(python.wheels, "nvidia-nccl-cu12", "2.27.3")
    built.rename(folder / built.name)
    (folder / "index.html").write_text(f'<a href="{built.name}">{built.name}</a>')
    env = {"PIP_INDEX_URL": (tmp_path / "none").as_uri(), "PIP_FIND_LINKS": str(python.wheels)}

    added = python.add(f"--index={(tmp_path / 'simple').as_uri()}", "torch", env=env)

    assert added.returncode == 0, added.stderr
    assert (python.version("torch"), python.version("nvidia_nccl_cu12")) == ("2.9.0", "2.27.3")

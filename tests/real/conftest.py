"""The real programs that tests drive: found, or the test says what is missing and how to get it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REAL_HOME = Path.home()  # before each test gets an empty one
HOW = (
    "git clone --depth 1 --branch v1.1.0 https://github.com/spack/spack.git ~/spack; "
    "git clone --depth 1 --branch v2026.06.0 https://github.com/spack/spack-packages.git ~/spack-packages; "
    "pip install clingo"
)


@dataclass(frozen=True)
class RealSpack:
    """A Spack and its packages, both from disk."""

    root: Path
    packages: Path

    @property
    def program(self) -> Path:
        return self.root / "bin" / "spack"

    @property
    def builtin(self) -> Path:
        return self.packages / "repos" / "spack_repo" / "builtin"

    @property
    def options(self) -> list[str]:
        """What `uenvtool build` is told to use them."""
        return ["--spack", str(self.root), "--repo", f"builtin={self.packages}"]


@pytest.fixture
def real_spack(monkeypatch: pytest.MonkeyPatch) -> RealSpack:
    """The real Spack of SPACK_ROOT, UENVTOOL_TEST_SPACK or ~/spack; skips where there is none."""
    root = _first("UENVTOOL_TEST_SPACK", "SPACK_ROOT", REAL_HOME / "spack", marker="bin/spack")
    packages = _first(
        "UENVTOOL_TEST_SPACK_PACKAGES", REAL_HOME / "spack-packages", marker="repos/spack_repo/builtin/repo.yaml"
    )
    if root is None or packages is None or importlib.util.find_spec("clingo") is None:
        pytest.skip(f"needs real Spack, its packages and clingo: {HOW}")
    cache = Path(os.environ.get("XDG_CACHE_HOME", REAL_HOME / ".cache")) / "uenvtool-tests" / "spack"
    monkeypatch.setenv("SPACK_PYTHON", sys.executable)  # the one that has clingo
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(cache))
    monkeypatch.setenv("SPACK_DISABLE_LOCAL_CONFIG", "1")
    return RealSpack(root, packages)


def program(name: str, how: str) -> str:
    """The path of a program; skips the test where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: {how}")
    return found


def _first(*places: str | Path, marker: str) -> Path | None:
    for place in places:
        path = Path(os.environ.get(place, "/nonexistent")) if isinstance(place, str) else place
        if (path / marker).is_file():
            return path
    return None

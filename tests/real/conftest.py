"""The real programs that tests drive: found, or the test says what is missing and how to get it."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import peers
from tests.support.needs import skip_without
from tests.support.project import CACHE


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
    """The real Spack with its packages; skips if one is absent."""
    if importlib.util.find_spec("clingo") is None:
        skip_without("clingo, Spack's solver", "pip install clingo")
    found = RealSpack(peers.SPACK.need(), peers.PACKAGES.need())
    monkeypatch.setenv("SPACK_PYTHON", sys.executable)  # the one that has clingo
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(CACHE / "spack-user"))
    monkeypatch.setenv("SPACK_DISABLE_LOCAL_CONFIG", "1")
    return found

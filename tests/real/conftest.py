"""Fixtures for real programs. If a program is missing, they skip the test and explain how to get it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import LEFT_OUT
from tests.support import peers
from tests.support.image_builds import spack_variables
from tests.support.images import Builder, storage
from tests.support.needs import skip_without
from tests.support.slurm import Slurm, running_slurm
from uenvtool.knowledge.recipe import Recipe

OF_COMMIT = {
    "e79ba9fc76dd02568da737230bd5f570822fcbb9": peers.PACKAGES_OF_2_9,
    "1e8cf059e35d55c4fe1142fed41785bedf6c7246": peers.PACKAGES_OF_2_12,
}
"""The checkouts of Spack's packages at other commits than the release."""


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Do not import files whose tests are all deselected."""
    named = config.getoption("markexpr") or ""
    return None if any(config.getoption(mark) or mark in named for mark in LEFT_OUT) else True


def pytest_itemcollected(item: pytest.Item) -> None:
    """Reject a test without one of these marks, because a run without options would never collect it."""
    if not any(item.get_closest_marker(mark) for mark in LEFT_OUT):
        raise pytest.UsageError(f"{item.nodeid} has none of the marks {', '.join(LEFT_OUT)}")


@dataclass(frozen=True)
class RealSpack:
    """A Spack with its packages and the packages of a site, all on disk."""

    root: Path
    packages: Path
    alps: Path

    @property
    def program(self) -> Path:
        return self.root / "bin" / "spack"

    @property
    def builtin(self) -> Path:
        return self.packages / "repos" / "spack_repo" / "builtin"

    @property
    def options(self) -> list[str]:
        """Return the options of `uenvtool build` that select them."""
        return ["--spack", str(self.root), "--repo", f"builtin={self.packages}", "--repo", f"alps={self.alps}"]

    def checkout(self, recipe: Recipe) -> Path:
        """Return the checkout of Spack's packages at the commit that the recipe pins."""
        own = OF_COMMIT.get(recipe.repos["builtin"].commit)
        return own.need() if own else self.packages

    def options_for(self, recipe: Recipe) -> list[str]:
        """Return the options of `uenvtool build` that select them for a recipe."""
        builtin = f"builtin={self.checkout(recipe)}"
        return ["--spack", str(self.root), "--repo", builtin, "--repo", f"alps={self.alps}"]

    def repositories(self, recipe: Recipe) -> dict[str, Path]:
        """Return the package repositories on disk for a recipe's environment."""
        builtin = self.checkout(recipe) / "repos" / "spack_repo" / "builtin"
        return {"builtin": builtin, "alps": self.alps}


@pytest.fixture
def real_spack(monkeypatch: pytest.MonkeyPatch) -> RealSpack:
    """Returns the real Spack with its packages, or skips the test if one is missing."""
    if importlib.util.find_spec("clingo") is None:
        skip_without("clingo, Spack's solver", "pip install clingo")
    found = RealSpack(peers.SPACK.need(), peers.PACKAGES.need(), peers.ALPS.need())
    for name, value in {**spack_variables(), "SPACK_DISABLE_LOCAL_CONFIG": "1"}.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def spack_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the variables of real Spack for builds in this process."""
    for name, value in spack_variables().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Starts a Slurm with four nodes for all tests of a module."""
    with running_slurm(tmp_path_factory.mktemp("slurm")) as found:
        yield found


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    """Returns a buildah with its own storage."""
    made = Builder(storage(tmp_path / "buildah"))
    yield made
    made.close()

"""`uenvtool image build` of the recipe `hello` by real Spack, for tests: in this process, or in one that is killed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import peers
from tests.support.installed import installed_hello
from tests.support.needs import needs, needs_solver
from tests.support.project import ROOT

MARKS = [
    pytest.mark.real,
    pytest.mark.build,
    pytest.mark.usefixtures("mount_points", "spack_is_ready"),
    needs_solver,
    *needs("mksquashfs"),
]
"""Of tests that build images, in this process or in others."""

UENVTOOL = (sys.executable, "-m", "uenvtool")
"""The command line of this checkout, in a process of its own."""


def spack_variables() -> dict[str, str]:
    """The variables with which real Spack has its solver and its indexes."""
    return {"SPACK_PYTHON": sys.executable, "SPACK_USER_CACHE_PATH": str(peers.spack_user())}


def environ(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a process that builds."""
    return {**os.environ, **spack_variables(), "PYTHONPATH": str(ROOT), **(more or {})}


def build_words(*words: str | Path) -> list[str]:
    """The words behind `uenvtool` that build the image of `hello`; skips if a program or its sources are absent."""
    spack, packages, sources = peers.SPACK.need(), peers.PACKAGES.need(), peers.SOURCES.need()
    options = ["--spack", spack, "--repo", f"builtin={packages}", "--mirror", sources]
    return [str(word) for word in ("image", "build", installed_hello().environment, *options, *words)]


def store_of_hello(folder: Path) -> Path:
    """A store of one's own with the packages of `hello`, as a run leaves it that was stopped after the last one."""
    return Path(shutil.copytree(installed_hello().store, folder, symlinks=True))

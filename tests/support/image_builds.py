"""Runs `uenvtool image build hello` with real Spack, in this process or in a process that a test kills."""

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
"""The marks of tests that build images."""

UENVTOOL = (sys.executable, "-m", "uenvtool")
"""The command that runs uenvtool of this checkout in a new process."""


def spack_variables() -> dict[str, str]:
    """Return the variables with which real Spack finds its solver and its indexes."""
    return {"SPACK_PYTHON": sys.executable, "SPACK_USER_CACHE_PATH": str(peers.spack_user())}


def environ(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a process that builds."""
    return {**os.environ, **spack_variables(), "PYTHONPATH": str(ROOT), **(more or {})}


def build_words(*words: str | Path) -> list[str]:
    """Return the arguments that build the image of `hello`. Skip if a program or the sources are missing."""
    spack, packages, sources = peers.SPACK.need(), peers.PACKAGES.need(), peers.SOURCES.need()
    options = ["--spack", spack, "--repo", f"builtin={packages}", "--mirror", sources]
    return [str(word) for word in ("image", "build", installed_hello().environment, *options, *words)]


def store_of_hello(folder: Path) -> Path:
    """Return a new store with all packages of `hello`, like that of a run that was stopped after the last one."""
    return Path(shutil.copytree(installed_hello().store, folder, symlinks=True))

"""Fixtures for overlay tests, with wheels and without a network."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.overlays import BaseHere, base
from tests.support.pythons import newest, pythons

LOADED = (
    *("PYTHONPATH", "PYTHONUSERBASE", "UENV_", "VIRTUAL_ENV", "APPTAINER", "SINGULARITY", "NVIDIA_", "CONDA_"),
    "LOADEDMODULES",
)
"""The prefixes of variables that show that a base is loaded."""

Loaded = Callable[..., BaseHere]
"""The type of the fixture `loaded`."""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of wheels that is the only source of packages."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes all variables that show that a base is loaded."""
    for name in list(os.environ):
        if name.startswith(LOADED):
            monkeypatch.delenv(name)


@pytest.fixture
def loaded(tmp_path: Path, no_base: None, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """Creates a base on the newest Python of this machine, and loads it as a uenv or a container does."""

    def load(layout: str = "pythonpath", version: str | None = None) -> BaseHere:
        version = version or newest()
        made = base(tmp_path / "base", layout, pythons()[version], version)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        return made

    return load

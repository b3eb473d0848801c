"""The Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path

from tests.support.needs import skip_without
from tests.support.project import REAL_HOME

PYENV = Path(os.environ.get("PYENV_ROOT") or REAL_HOME / ".pyenv") / "versions"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
"""The minor versions for which overlays are tested."""


@cache
def pythons() -> dict[str, Path]:
    """Return the Pythons of this machine by minor version, oldest first, including the one that runs the tests."""
    return {version: path for version in VERSIONS if (path := _python(version))}


def newest() -> str:
    """Return the newest of these versions."""
    return next(reversed(pythons()))


def python_of(version: str) -> Path:
    """Return the Python of a version, or skip the test if it is not installed."""
    found = _python(version)
    if found is None:
        skip_without(f"Python {version}", f"`pyenv install {version}`")
    return found


def _python(version: str) -> Path | None:
    of_pyenv = sorted(PYENV.glob(f"{version}.*/bin/python{version}"))
    of_the_system = [Path(folder, f"python{version}") for folder in ("/usr/local/bin", "/usr/bin")]
    return next(iter([*of_pyenv, *filter(Path.exists, of_the_system), *_running(version)]), None)


def _running(version: str) -> list[Path]:
    """Return the base interpreter of the environment that runs the tests, if it has this version."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" != version:
        return []
    program = shutil.which(f"python{version}", path=str(Path(sys.base_prefix, "bin")))
    return [Path(program)] if program else []

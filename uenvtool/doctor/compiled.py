"""Compiled packages of an environment that fit another torch or numpy than the one they meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.doctor.checks import Fault
from uenvtool.doctor.snapshot import PythonHere
from uenvtool.venv.base import Distribution

NUMPY, TORCH = "numpy-abi", "import-abi"
"""What is known of both: a log shows them too."""


@dataclass(frozen=True, slots=True)
class _Base:
    """What lies below an environment."""

    packages: Mapping[str, Distribution]


def misfits(python: PythonHere | None) -> Iterator[Fault]:
    """The packages of an environment on a base that do not fit, and those of the base that no longer do.

    An environment without a base is left to the tool that made it. Libraries are read, and nothing is imported.
    """
    below = [folder for folder in python.folders if folder != python.its_folder] if python else []
    if python is None or not python.its_folder or not any(package.folder in below for package in python.packages):
        return
    from uenvtool.venv.check import installed
    from uenvtool.venv.compiled import numpy_problems, torch_problems

    before: dict[str, Distribution] = {}
    try:
        new = installed(Path(python.its_folder))
        for folder in below:
            before = {**installed(Path(folder)), **before}
    except (OSError, ValueError, TypeError, KeyError):  # metadata that is damaged, as a half removed package leaves it
        return
    yield from (Fault(NUMPY, problem.message) for problem in numpy_problems(_Base(before), new))
    yield from (Fault(TORCH, problem.message) for problem in torch_problems(_Base(before), new, python.chosen))

"""Checks a virtual environment made by another tool for use in a job, and starts its launcher correctly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from uenvtool.check.launchers import launcher_named
from uenvtool.core.errors import Problem
from uenvtool.core.words import is_within
from uenvtool.job.command import JobCommand
from uenvtool.job.disk import Disk
from uenvtool.job.plan import ARCHIVES, CONTAINER, ENVIRONMENT, UENV, JobPlan

TORCH = "torch"
IN_BASE = "`python -m venv --system-site-packages NEW` or `uenvtool venv NEW PACKAGE...`"


def not_over_base(plan: JobPlan, disk: Disk, mount: str) -> Iterator[Problem]:
    """Yield a problem if such an environment cannot be used in a job. mount: the mount point of the system's uenvs.

    The environment contains the path of its Python. The Python of a uenv is below the mount point, and that of a
    container is not on this machine.
    """
    other, use, path = disk.other, plan.use.image, plan.request.venv
    if other is None:
        return
    in_uenv = is_within(other.home, mount)
    if use == UENV:
        command = f"uenvtool venv NEW PACKAGE... --uenv {plan.image} --view {plan.request.view}"
        hint = f"create the environment on the uenv: `{command}`"
        if not in_uenv:
            yield Problem(f"--venv {path}: its Python {other.python} is not that of the uenv", hint=hint)
    elif in_uenv:
        hint = f"create the environment in the base of {plan.runtime.name}: {IN_BASE}"
        yield Problem(f"--venv {path}: its Python {other.python} belongs to a uenv", hint=hint)
    elif use == CONTAINER:
        hint = f"create the environment in the container: {IN_BASE}"
        is_here = disk.exists(other.python) or is_within(other.home, disk.home)
        if is_here and not disk.in_container:
            yield Problem(f"--venv {path}: its Python {other.python} belongs to this machine", hint=hint)
    elif use == ENVIRONMENT and plan.image and not plan.image.endswith(ARCHIVES):
        folder = os.path.abspath(plan.image)
        hint = f"create the environment there: {IN_BASE}, after `conda activate {plan.image}`"
        if not is_within(other.home, folder):
            yield Problem(f"--venv {path}: its Python {other.python} is not in {plan.image}", hint=hint)
    if use in (UENV, CONTAINER) and not other.sees_base and TORCH not in other.packages:
        problem = f"--venv {path}: it has no torch and cannot see the base's (include-system-site-packages = false)"
        yield Problem(problem, hint=hint)


def through_its_python(command: JobCommand, disk: Disk) -> JobCommand:
    """Return the command with a launcher that the environment's Python starts if the environment has no launcher.

    The `torchrun` of the base would start the Python of the base, which does not see the environment.
    """
    launcher, other = launcher_named(command.launcher), disk.other
    if launcher is None or other is None or not launcher.modules:
        return command
    for names in (tuple(known.split()) for known in launcher.commands):
        if command.program[-len(names) :] == names and names[0] not in other.programs:
            module = ("python", "-m", launcher.modules[0])
            return replace(command, program=(*command.program[: -len(names)], *module))
    return command


def starts_without_it(plan: JobPlan, disk: Disk) -> Iterator[str]:
    """Yield a warning if the base's launcher would start the base's Python, and no module can start the launcher."""
    launcher, other = launcher_named(plan.command.launcher), disk.other
    if launcher and other and not launcher.modules and launcher.command.split()[0] not in other.programs:
        name = launcher.command.split()[0]
        yield (
            f"--venv {plan.request.venv}: it has no {name}, and the base's {name} starts a Python that does not see "
            f"this environment; install {name} in it"
        )

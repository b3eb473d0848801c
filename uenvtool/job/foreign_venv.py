"""A virtual environment of another tool in a job: if it lies over the job's base, and how its launcher starts."""

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
    """Yield why such an environment cannot be used in a job. mount: where the system's uenvs are mounted.

    It finds its Python by a path: a uenv's lies below the mount, a container's is not on this machine.
    """
    other, use, path = disk.other, plan.use.image, plan.request.venv
    if other is None:
        return
    in_uenv = is_within(other.home, mount)
    if use == UENV:
        hint = f"make one on the uenv: `uenvtool venv NEW PACKAGE... --uenv {plan.image} --view {plan.request.view}`"
        if not in_uenv:
            yield Problem(f"--venv {path}: its Python is {other.python}, which is not the uenv's", hint=hint)
    elif in_uenv:
        hint = f"make one where {plan.runtime.name} runs: {IN_BASE}"
        yield Problem(f"--venv {path}: its Python is {other.python}, of a uenv", hint=hint)
    elif use == CONTAINER:
        hint = f"make one in the container: {IN_BASE}"
        is_here = disk.exists(other.python) or is_within(other.home, disk.home)
        if is_here and not disk.in_container:
            yield Problem(f"--venv {path}: its Python is {other.python} of this machine", hint=hint)
    elif use == ENVIRONMENT and plan.image and not plan.image.endswith(ARCHIVES):
        folder = os.path.abspath(plan.image)
        hint = f"make one there: {IN_BASE}, after `conda activate {plan.image}`"
        if not is_within(other.home, folder):
            yield Problem(f"--venv {path}: its Python is {other.python}, which is not in {plan.image}", hint=hint)
    if use in (UENV, CONTAINER) and not other.sees_base and TORCH not in other.packages:
        problem = f"--venv {path}: it has no torch, and does not see the base's (include-system-site-packages = false)"
        yield Problem(problem, hint=hint)


def through_its_python(command: JobCommand, disk: Disk) -> JobCommand:
    """Return a command whose launcher starts by the environment's Python if it is not in its bin/.

    The base's `torchrun` starts the base's Python, which does not see the environment.
    """
    launcher, other = launcher_named(command.launcher), disk.other
    if launcher is None or other is None or not launcher.modules:
        return command
    for words in (tuple(known.split()) for known in launcher.commands):
        if command.program[-len(words) :] == words and words[0] not in other.programs:
            module = ("python", "-m", launcher.modules[0])
            return replace(command, program=(*command.program[: -len(words)], *module))
    return command


def starts_without_it(plan: JobPlan, disk: Disk) -> Iterator[str]:
    """Yield that a launcher, which no module starts, is the base's: it starts the base's Python."""
    launcher, other = launcher_named(plan.command.launcher), disk.other
    if launcher and other and not launcher.modules and launcher.command.split()[0] not in other.programs:
        name = launcher.command.split()[0]
        yield (
            f"{plan.request.venv} has no {name} of its own, and the base's starts the base's Python, which does not "
            f"see it: install {name} there too"
        )

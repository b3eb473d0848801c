"""Checks whether the environment of --venv fits the base of a job, and starts the launcher with the right Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from uenvtool.check.launchers import launcher_named
from uenvtool.core.errors import Problem
from uenvtool.core.session import in_container
from uenvtool.core.words import is_within
from uenvtool.job.command import JobCommand
from uenvtool.job.disk import Disk
from uenvtool.job.plan import ARCHIVES, CONTAINER, ENVIRONMENT, HERE, UENV, JobPlan
from uenvtool.knowledge.system import NodeType

if TYPE_CHECKING:
    from uenvtool.venv.info import Environment

TORCH = "torch"
IN_BASE = "`python -m venv --system-site-packages NEW` or `uenvtool venv NEW PACKAGE...`"


def misfit(plan: JobPlan, disk: Disk, node: NodeType, mount: str) -> Iterator[Problem]:
    """Yield a problem if the environment of --venv does not work on the base of a job.

    An environment contains the path of its Python. The Python of a uenv is below a mount point, and that of a container
    is not on this machine. node: the nodes of the job. mount: the mount point of the system's uenvs.
    """
    environment, path = disk.environment, plan.request.venv
    if environment is None:
        return
    platform = environment.platform.replace("-", "_")
    if platform and node.machine and node.machine not in platform:
        problem = f"--venv {path}: it was created for {environment.platform}, but the nodes of {plan.system} are"
        yield Problem(f"{problem} {node.machine}", hint="create it again on such a node")
    hint = _hint(plan)
    if reason := _wrong_python(plan, environment, mount):
        yield Problem(f"--venv {path}: its Python {environment.python} {reason}", hint=hint)
    if plan.use.image in (UENV, CONTAINER) and not environment.sees_base and TORCH not in environment.packages:
        why = "--no-base" if environment.is_overlay else "include-system-site-packages = false"
        yield Problem(f"--venv {path}: it has no torch and cannot see the base's ({why})", hint=hint)


def _wrong_python(plan: JobPlan, environment: Environment, mount: str) -> str:
    """Return the reason if the base lacks the environment's Python, or "" if the base has it or this is unknown."""
    use, python = plan.use.image, environment.python
    is_here = plan.use.scheduler == HERE and os.path.exists(python)
    if not python or is_here:
        return ""
    in_uenv = environment.kind == UENV or is_within(environment.home, mount)
    if use == UENV:
        return "" if in_uenv else "is not that of the uenv"
    if in_uenv:
        return "belongs to a uenv"
    if use == CONTAINER:
        is_of_host = environment.in_container is False
        if environment.in_container is None and not in_container(os.environ):
            is_of_host = os.path.exists(python) or is_within(environment.home, os.path.expanduser("~"))
        return "belongs to this machine" if is_of_host else ""
    if environment.in_container and not environment.base_is_here:
        return "belongs to a container"
    if use == ENVIRONMENT and plan.image and not plan.image.endswith(ARCHIVES):
        home, folder = environment.home, os.path.abspath(plan.image)
        is_inside = is_within(home, folder) or is_within(os.path.realpath(home), os.path.realpath(folder))
        return "" if is_inside else f"is not in {plan.image}"
    return ""


def _hint(plan: JobPlan) -> str:
    if plan.use.image == UENV:
        command = f"uenvtool venv NEW PACKAGE... --uenv {plan.image} --view {plan.request.view}"
        return f"create the environment on the uenv: `{command}`"
    if plan.use.image == CONTAINER:
        return f"create the environment in the container: {IN_BASE}"
    after = f", after `conda activate {plan.image}`" if plan.use.image == ENVIRONMENT and plan.image else ""
    return f"create the environment in the base of {plan.runtime.name}: {IN_BASE}{after}"


def through_its_python(command: JobCommand, disk: Disk) -> JobCommand:
    """Return the command. If the environment lacks the launcher, its Python starts the launcher as a module.

    An overlay has the launchers of its base. For another tool's environment, the `torchrun` of the base would start the
    Python of the base, which does not see the environment.
    """
    launcher, other = launcher_named(command.launcher), disk.environment
    if launcher is None or other is None or other.is_overlay or not launcher.modules:
        return command
    for names in (tuple(known.split()) for known in launcher.commands):
        if command.program[-len(names) :] == names and names[0] not in other.programs:
            module = ("python", "-m", launcher.modules[0])
            return replace(command, program=(*command.program[: -len(names)], *module))
    return command


def starts_without_it(plan: JobPlan, disk: Disk) -> Iterator[str]:
    """Yield a warning if the base's launcher would start the base's Python and cannot run with `python -m` instead."""
    launcher, other = launcher_named(plan.command.launcher), disk.environment
    name = launcher.command.split()[0] if launcher and not launcher.modules else ""
    if name and other and not other.is_overlay and name not in other.programs:
        yield (
            f"--venv {plan.request.venv}: it has no {name}, and the base's {name} starts a Python that does not see "
            f"this environment; install {name} in it"
        )

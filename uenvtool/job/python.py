"""Checks the Python of a job without an image or overlay. This Python comes from modules or from this shell."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.check.launchers import PYTHON_NAME
from uenvtool.core.errors import Problem
from uenvtool.job.command import Typed
from uenvtool.job.disk import Disk
from uenvtool.job.plan import CONTAINER, ENVIRONMENT, NO_IMAGE, SLURM, UENV, JobPlan
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.system import System


def without_torch(plan: JobPlan, typed: Typed, disk: Disk, system: System) -> Iterator[Problem]:
    """Yield a problem if the Python that the job finds on PATH has no PyTorch.

    A Python that is named by its path, a shell script and runners such as `uv run` use their own environment.
    """
    kind, known, name = plan.use.image, plan.knowledge, plan.runtime.name
    if plan.use.scheduler != SLURM or kind not in (ENVIRONMENT, NO_IMAGE) or plan.image or plan.overlay:
        return
    is_loaded = kind == NO_IMAGE and known.modules and known.torch
    program = typed.words[typed.start]
    is_by_name = "/" not in program and bool(typed.launcher or PYTHON_NAME.fullmatch(program))
    if is_loaded or disk.active or plan.request.nccl_test or not is_by_name:
        return
    why = f"the file of {system.name} lists no modules for the runtime {name}"
    if known.modules:
        why = f"the modules of the runtime {name} on {system.name} do not contain it"
    ways = ["--venv with an environment that contains it"]
    if kind == ENVIRONMENT:
        ways.append("--image with a conda environment (directory or archive), or an active conda environment")
    with_image = [other for other in system.runtimes if other != name and _has_image(other)]
    if with_image:
        ways.append(f"--runtime {' or '.join(with_image)} with --image")
    if not known.modules and kind == NO_IMAGE:
        ways.append(f"`jobs: {{runtimes: {{{name}: {{modules: [...]}}}}}}` in the system's file")
    yield Problem(
        f"{program} would have no PyTorch: {why}",
        hint=f"use {', or '.join((*ways, 'the path of a Python after --'))}",
    )


def _has_image(runtime: str) -> bool:
    return load_runtime(runtime).job.image in (UENV, CONTAINER, ENVIRONMENT)

"""The Python of a job that has neither image nor overlay: what its modules bring, or the environment of this shell."""

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
    """Yield that nothing brings PyTorch to the Python that a job finds by its name.

    A Python by its path, a shell script and such as `uv run` bring an environment of their own.
    """
    kind, known, name = plan.use.image, plan.knowledge, plan.runtime.name
    if plan.use.scheduler != SLURM or kind not in (ENVIRONMENT, NO_IMAGE) or plan.image or plan.overlay:
        return
    is_loaded = kind == NO_IMAGE and known.modules and known.torch
    program = typed.words[typed.start]
    is_by_name = "/" not in program and bool(typed.launcher or PYTHON_NAME.fullmatch(program))
    if is_loaded or disk.active or plan.request.nccl_test or not is_by_name:
        return
    why = f"{system.name} names no modules for {name}"
    if known.modules:
        why = f"the modules that a job of {name} loads on {system.name} bring none"
    ways = ["--venv with an environment that has it"]
    if kind == ENVIRONMENT:
        ways.append("--image with one of conda, a folder or an archive, or the active one")
    with_image = [other for other in system.runtimes if other != name and _has_image(other)]
    if with_image:
        ways.append(f"--runtime {' or '.join(with_image)} with --image")
    if not known.modules and kind == NO_IMAGE:
        ways.append(f"`jobs: {{runtimes: {{{name}: {{modules: [...]}}}}}}` in the system's file")
    yield Problem(
        f"{program} would have no PyTorch: {why}",
        hint=", or ".join((*ways, "a Python by its path behind --")),
    )


def _has_image(runtime: str) -> bool:
    return load_runtime(runtime).job.image in (UENV, CONTAINER, ENVIRONMENT)

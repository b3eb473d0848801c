"""Warnings about a job that may fail or waste resources when it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from uenvtool.check.launchers import PYTHON_NAME, SRUN, TORCHRUN
from uenvtool.core.words import is_within
from uenvtool.job.environment import starts_without_it
from uenvtool.job.images import on_another_tag, on_unknown_recipe
from uenvtool.job.plan import ENVIRONMENT, KUBERNETES, SLURM, UENV
from uenvtool.job.refusals import HOST_FOLDERS, Case
from uenvtool.knowledge.kinds import LAUNCHER, RUNTIME
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.place import missing_rdma

_RUNNER = re.compile(r"(?:env .*?)?(?:\S*/)?((?:uv|poetry|pdm|pixi|hatch|pipenv|rye|conda|mamba|micromamba) run) ")
_DEVICES = re.compile(r"((?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)=([\d,]*)")
_STARTS_ITSELF = re.compile(
    r"(?m)^(?![ \t]*#)(?:.*\b(?:(?:mp|multiprocessing)\.spawn\(|deepspeed\.launcher\b)|[ \t]*(?:ray\.init|launch)\("
    r"|(?P<submits>(?:import|from) submitit\b))"
)
"""A line of a program that starts the training processes itself or submits jobs for them."""


def warnings(case: Case) -> Iterator[str]:
    """Yield warnings about skipped files, the program, GPUs, cores, storage and the overlay."""
    plan, system = case.plan, case.system
    yield from skipped_file_notes(RUNTIME, LAUNCHER)
    yield from _of_missing_program(case)
    yield from _of_other_python(case)
    yield from _of_idle_gpus(case)
    yield from _of_program(case)
    yield from starts_without_it(plan, case.disk)
    if plan.use.scheduler == SLURM and not plan.gpus:
        yield f"{system.name} has no GPUs; connect the ranks with torch.distributed.init_process_group('gloo')"
    if plan.use.scheduler == SLURM and not plan.cores:
        yield (
            f"the file of {system.name} does not contain the cores of a node; the job requests none and may get one "
            "core per task"
        )
    if plan.use.scheduler == KUBERNETES and not plan.request.pvc and not plan.request.interactive:
        yield "the pods see only their image; mount the storage of your program with --pvc CLAIM:PATH"
    if plan.use.scheduler == KUBERNETES and plan.nodes > 1:
        for problem in missing_rdma(system.tree):
            yield f"{system.name}: {problem.message}"
    if case.disk.environment and case.disk.environment.newer:
        newer = case.disk.environment.newer
        yield f"{plan.request.venv} is older than {newer}; pack it again with `uenvtool venv {newer} --squash`"
    yield from case.disk.environment.outdated if case.disk.environment else ()
    yield from on_unknown_recipe(plan)
    yield from on_another_tag(plan, case.published if case.recipe else "")
    if plan.edf:
        yield from _of_edf_image(case)


def _of_other_python(case: Case) -> Iterator[str]:
    """Yield a warning if the command starts a Python that is neither the overlay's nor the image's."""
    plan, typed = case.plan, case.typed
    base = plan.overlay.path if plan.overlay else plan.image
    runner = _RUNNER.match(" ".join((*plan.command.program, *plan.command.words)))
    if runner and base and not {base, base.removeprefix("./")}.intersection(typed.words):
        yield (
            f"{runner[1]} starts the Python of its own environment, without the packages of {base}; install the "
            f"project with `uenvtool venv`, name the overlay with --venv, and leave {runner[1]} out"
        )
    word = typed.words[typed.start]
    is_python = bool(typed.launcher or PYTHON_NAME.fullmatch(os.path.basename(word)))
    if is_python and base and "/" in word and "$" not in word and _is_other(case, os.path.abspath(word)):
        name = os.path.basename(word)
        yield f"{word} is not the {name} of {base} and does not see its packages; write {name} without a path"


def _is_other(case: Case, path: str) -> bool:
    plan = case.plan
    if plan.overlay:
        return plan.unpacks or not is_within(path, plan.overlay.place)
    if plan.use.image == UENV:
        _, _, mount = plan.image.rpartition(":")  # NAME/VERSION:TAG or IMAGE:/MOUNT
        return not is_within(path, mount if mount.startswith("/") and mount != plan.image else case.system.mount)
    if plan.use.image == ENVIRONMENT:
        return plan.is_sent or not is_within(path, os.path.abspath(plan.image))
    return case.disk.exists(path) and not HOST_FOLDERS.match(path)  # a path in the container may be the image's Python


def _of_idle_gpus(case: Case) -> Iterator[str]:
    plan = case.plan
    option, ranks = plan.command.ranks_option
    if ranks and plan.gpu and ranks < plan.ranks:
        yield f"{option} {ranks}: the job requests {plan.ranks} GPUs per node; use --gpus {ranks} to request fewer"
    assigned = (*plan.command.program, *plan.command.words, *plan.request.env)
    for name, value in (match.groups() for match in map(_DEVICES.fullmatch, assigned) if match):
        visible = list(takewhile(lambda device: int(device) < plan.ranks, filter(None, value.split(","))))
        if plan.gpu and plan.use.scheduler == SLURM and len(visible) < plan.ranks:
            yield f"{name}={value}: a rank sees only {len(visible)} of the {plan.ranks} GPUs that the job has on a node"


def _of_program(case: Case) -> Iterator[str]:
    plan = case.plan
    words, launcher = plan.command.words, plan.command.launcher
    pairs = zip(("", *words), words, strict=False)
    named = next((word for before, word in pairs if word.endswith(".py") or before == "-m"), "")
    if not named or launcher not in (SRUN, TORCHRUN):
        return
    file = Path(plan.request.workdir or ".", named if named.endswith(".py") else f"{named.replace('.', '/')}.py")
    text = case.disk.text(str(file))
    match = _STARTS_ITSELF.search(text)
    if match is None:
        return
    place = f"{file}:{text.count(chr(10), 0, match.start()) + 1}"
    if match["submits"]:
        yield f"{place} submits jobs with submitit; start the program on a login node, not in a job"
    else:
        yield (
            f"{place} starts processes itself, but {launcher} starts {file.name} once for each GPU; "
            "use `--launcher none` to start it once per node"
        )


def _of_missing_program(case: Case) -> Iterator[str]:
    workdir, words = case.plan.request.workdir, case.plan.command.words
    folder = Path(workdir or ".")
    for before, word in zip(("", *words), words, strict=False):
        is_named = word.endswith((".py", ".sh")) and not word.startswith(("/", "$", "-"))
        if is_named and not case.disk.exists(str(folder / word)):
            yield f"file not found: '{word}'; the job looks for it in {workdir or 'the directory where you submit it'}"
            break
        package = word.partition(".")[0]
        if before == "-m" and not any(case.disk.exists(str(folder / f"{package}{end}")) for end in ("", ".py")):
            packages = case.disk.environment.packages if case.disk.environment else ()
            names = {name.replace("-", "_") for name in packages}
            if package not in names:
                yield f"-m {word}: {package} was not found here; the image or the overlay must contain it"
            break


def _of_edf_image(case: Case) -> Iterator[str]:
    image = os.path.expandvars(case.plan.image)
    if image.startswith("/") and "$" not in image and not case.disk.exists(image):
        yield f"file not found: '{image}', the image in {case.plan.request.image}"

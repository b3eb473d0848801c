"""What may fail when a job runs: the table of warnings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from uenvtool.check.launchers import SRUN, TORCHRUN
from uenvtool.job.foreign_venv import starts_without_it
from uenvtool.job.images import on_another_tag
from uenvtool.job.plan import CONTAINER, KUBERNETES, SLURM
from uenvtool.job.refusals import Case
from uenvtool.knowledge.kinds import LAUNCHER, RUNTIME
from uenvtool.knowledge.load import skipped_file_notes

_RUNNER = re.compile(r"(?:env .*?)?((?:uv|poetry|pdm|pixi|hatch|pipenv) run) ")
_DEVICES = re.compile(r"((?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)=([\d,]*)")
_STARTS_ITSELF = re.compile(
    r"(?m)^(?![ \t]*#)(?:.*\b(?:(?:mp|multiprocessing)\.spawn\(|deepspeed\.launcher\b)|[ \t]*(?:ray\.init|launch)\("
    r"|(?P<submits>(?:import|from) submitit\b))"
)
"""A line of a program that starts the processes of a training itself, or submits jobs for them."""


def warnings(case: Case) -> Iterator[str]:
    """Yield what a job leaves out of its user's, and what it may miss: its program, GPUs, cores, storage, overlay."""
    plan, system = case.plan, case.system
    yield from skipped_file_notes(RUNTIME, LAUNCHER)
    yield from _of_missing_program(case)
    runner = _RUNNER.match(" ".join((*plan.command.program, *plan.command.words)))
    if runner and plan.image:
        yield (
            f"{runner[1]} starts the Python of an environment of its own, without the torch of {plan.image}: "
            "lay the project over that with `uenvtool venv`, name it with --venv, and leave the words out"
        )
    yield from _of_idle_gpus(case)
    yield from _of_program(case)
    yield from starts_without_it(plan, case.disk)
    if plan.use.scheduler == SLURM and not plan.gpus:
        yield f"{system.name} has no GPUs: the ranks meet by gloo, as in torch.distributed.init_process_group('gloo')"
    if plan.use.scheduler == SLURM and not plan.cores:
        yield f"{system.name} does not say how many cores a node has: the job asks for none, and may get one a task"
    if plan.use.scheduler == KUBERNETES and not plan.request.pvc and not plan.request.interactive:
        yield "the pods see only their image: storage that has your program comes by --pvc CLAIM:PATH"
    if case.disk.overlay:
        yield from _of_overlay(case)
    if plan.edf:
        yield from _of_edf_image(case)


def _of_idle_gpus(case: Case) -> Iterator[str]:
    plan = case.plan
    named_by, told = plan.command.told_ranks
    if told and plan.gpu and told < plan.ranks:
        yield f"{named_by} {told}: the job asks for {plan.ranks} GPUs of a node; --gpus {told} asks for as many"
    assigned = (*plan.command.program, *plan.command.words, *plan.request.env)
    for name, value in (found.groups() for found in map(_DEVICES.fullmatch, assigned) if found):
        seen = list(takewhile(lambda one: int(one) < plan.ranks, filter(None, value.split(","))))
        if plan.gpu and plan.use.scheduler == SLURM and len(seen) < plan.ranks:
            yield f"{name}={value}: a rank sees {len(seen)} of the {plan.ranks} GPUs that the job has on a node"


def _of_program(case: Case) -> Iterator[str]:
    """Yield that a Python program, which is started once for each GPU, starts processes on all of them itself."""
    plan = case.plan
    words, launcher = plan.command.words, plan.command.launcher
    pairs = zip(("", *words), words, strict=False)
    named = next((word for before, word in pairs if word.endswith(".py") or before == "-m"), "")
    if not named or launcher not in (SRUN, TORCHRUN):
        return
    file = Path(plan.request.workdir or ".", named if named.endswith(".py") else f"{named.replace('.', '/')}.py")
    text = case.disk.text(str(file))
    found = _STARTS_ITSELF.search(text)
    if found is None:
        return
    place = f"{file}:{text.count(chr(10), 0, found.start()) + 1}"
    if found["submits"]:
        yield f"{place} submits jobs itself, by submitit: start it on a login node, not in a job"
    else:
        yield (
            f"{place} starts processes of its own, and {launcher} starts {file.name} once for each GPU: "
            "where it does, `--launcher none` starts it once a node"
        )


def _of_missing_program(case: Case) -> Iterator[str]:
    """Yield that the script or module which the command names first is not here."""
    workdir, words = case.plan.request.workdir, case.plan.command.words
    folder = Path(workdir or ".")
    for before, word in zip(("", *words), words, strict=False):
        is_named = word.endswith((".py", ".sh")) and not word.startswith(("/", "$", "-"))
        if is_named and not case.disk.exists(str(folder / word)):
            yield f"{word} is not here: it is looked for in {workdir or 'the folder where the job is submitted'}"
            break
        package = word.partition(".")[0]
        if before == "-m" and not any(case.disk.exists(str(folder / f"{package}{end}")) for end in ("", ".py")):
            names = {row["name"].replace("-", "_") for row in case.disk.overlay.get("packages", ())}
            if package not in names:
                yield f"-m {word}: {package} is not here; the image or the overlay must have it"
            break


def _of_edf_image(case: Case) -> Iterator[str]:
    """Yield that the image which an EDF of the user's names is not here; a path of variables is not looked for."""
    image = os.path.expandvars(case.plan.image)
    if image.startswith("/") and "$" not in image and not case.disk.exists(image):
        yield f"{image}, the image of {case.plan.request.image}, is not here"


def _of_overlay(case: Case) -> Iterator[str]:
    """Yield that an overlay was made for another place, or is older than what it was packed of."""
    plan, overlay = case.plan, case.disk.overlay
    path = plan.request.venv
    base, newer = overlay.get("base") or {}, overlay.get("overlay") or {}
    if newer.get("newer"):
        yield f"{path} is older than {newer['path']}: pack it again with `uenvtool venv {newer['path']} --squash`"
    platform, target = str(base.get("platform") or ""), case.system.nodes[case.uarch].machine
    if target and platform and target not in platform.replace("-", "_"):
        yield f"{path} was made for {platform}, and the nodes of {case.system.name} are {target}: make it anew there"
    yield from on_another_tag(plan, case.published if case.recipe else "")
    if base and plan.use.image == CONTAINER and not base.get("in_container"):
        of_uenv = "the uenv " if base.get("kind") == "uenv" else ""
        yield f"{path} was made on {of_uenv}{base.get('name')}: a container has another Python, make it anew inside"
    is_inside = base.get("in_container") and not overlay.get("base_is_here")
    if is_inside and plan.use.image != CONTAINER and plan.use.scheduler != KUBERNETES:
        yield f"{path} was made in a container: {plan.runtime.name} has another Python, make it anew outside"

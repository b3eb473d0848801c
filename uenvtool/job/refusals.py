"""Why a job cannot be: the table of refusals, each with what to do instead. The first that holds is told."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uenvtool.check.launchers import NONE, SRUN, TORCHRUN, has_unknown, isolation_reason, launchers, option
from uenvtool.core import quoting
from uenvtool.core.errors import Position, Problem, unknown
from uenvtool.core.words import is_within
from uenvtool.job.command import SUBMITTERS, Started, Typed, given_by_job, whole_line
from uenvtool.job.disk import Disk
from uenvtool.job.foreign_venv import not_over_base
from uenvtool.job.images import mount_hint, of_image_file, on_another_image
from uenvtool.job.interactive import not_interactive
from uenvtool.job.limits import over_gpus, over_limits
from uenvtool.job.plan import (
    ARCHIVES,
    CONTAINER,
    ENVIRONMENT,
    HERE,
    KUBERNETES,
    NO_IMAGE,
    PATH_STARTS,
    SLURM,
    UENV,
    JobPlan,
)
from uenvtool.job.python import without_torch
from uenvtool.knowledge.jobs import Refused
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.runtime import JobUse
from uenvtool.knowledge.system import System

REGISTRY = re.compile(
    r"(?:docker://)?(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?|localhost(?::\d+)?)[/#](?P<name>[\w./-]+(?:[:@][\w.:-]+)*)"
)
"""An image of a registry: a host name with a dot, as docker knows it."""
NEW_SITE = "docs/new-site.md has one for PBS"
_NAME, _PATH = r"[A-Za-z0-9_][A-Za-z0-9_.-]*", r"[./][A-Za-z0-9_./-]*"
_UENV = re.compile(rf"({_PATH}|{_NAME}(/{_NAME})?(:{_NAME})?(@({_NAME}|\*)|%{_NAME})*)(:{_PATH})?")
"""What uenv 9 and 10 read as one image (eth-cscs/uenv, src/uenv/parse.cpp, parse_uenv_description): a path or a label,
and where it is mounted."""
_OF_THE_SHELL = frozenset(("cd", "source", ".", "export", "module", "ml", "set", "unset", "ulimit", "alias", "pushd"))
"""What changes the shell that it is typed in, and does nothing in a process of its own."""
_HOST_FOLDERS = re.compile(r"/(usr|bin|sbin|lib|lib64|etc|dev|proc|sys|opt|run|tmp|var)(/|\Z)")
"""Folders that a container has of its own, or that no data of a user's lie in."""
_ONLY_SLURM = ("account", "partition", "requeue", "vet", "spare", "stage", "large", "option")
_ONLY_PODS = ("pvc", "project", "node_type", "uid")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What a job is refused or warned of by.

    recipe: the one that is named. known: that, or the one that the image's label tells. published: the published uenv
    of `recipe`, or without one the uenv that is loaded; empty if there is none.
    """

    system: System
    uarch: str
    disk: Disk
    typed: Typed
    recipe: Recipe | None
    known: Recipe | None
    published: str
    plan: JobPlan


def usual_launcher(system: System, use: JobUse) -> str:
    """Return the first launcher of a runtime that jobs of the system take; none if they take none of them."""
    refused = _refused_launchers(system, use)
    return next((name for name in use.launchers if name not in refused), NONE)


def _refused_launchers(system: System, use: JobUse) -> Mapping[str, Refused]:
    return system.jobs.refused if use.scheduler == SLURM else {}


def refusals(case: Case) -> Iterator[Problem]:
    """Yield why a job cannot be: the place, the files, the image, the command, the paths."""
    yield from _of_place(case)
    yield from not_interactive(case.plan) if case.plan.opens_shell else ()
    yield from over_limits(case.plan, case.system)
    yield from _of_files(case)
    yield from _of_image(case)
    yield from not_over_base(case.plan, case.disk, case.system.mount)
    yield from _of_launcher(case)
    yield from without_torch(case.plan, case.typed, case.disk, case.system)
    yield from _of_paths(case)


def _of_place(case: Case) -> Iterator[Problem]:
    plan, system = case.plan, case.system
    request, use, name = plan.request, plan.use, plan.runtime.name
    in_slurm = use.scheduler == SLURM and system.scheduler.name == SLURM
    if use.scheduler == SLURM and not in_slurm:
        hint = f"take its variables (`uenvtool activate --system {system.name}`) into a script of your own: {NEW_SITE}"
        yield Problem(f"{system.name} has no Slurm, for which jobs of {name} are written", hint=hint)
    for is_there, options, where in (
        (in_slurm, _ONLY_SLURM, "Slurm"),
        (use.scheduler == KUBERNETES, _ONLY_PODS, "pods"),
        (use.scheduler != HERE, ("interactive",), "Slurm and pods"),
        (use.image == CONTAINER and use.scheduler == SLURM, ("mount",), "containers on a node"),
        (use.variables == "edf", ("annotation",), "an EDF"),
    ):
        given = [f"--{option.replace('_', '-')}" for option in options if getattr(request, option)]
        if given and not is_there:
            yield Problem(f"{', '.join(given)}: only for {where}", hint=f"{system.name}, {name}: leave it out")
    needed = [option for option in system.jobs.required if in_slurm and option not in system.scheduler.defaults]
    lacking = [f"--{option}" for option in needed if not getattr(request, option)]
    if lacking:
        missing = ", ".join(lacking)
        yield Problem(f"{system.name} runs no job without {missing}", hint="your project's name, as in --account g123")
    if request.large and system.jobs.large is None:
        yield Problem(f"--large: {system.name} says nothing of large runs", hint="use --option '--constraint=...'")
    if request.stage and use.image in (ENVIRONMENT, NO_IMAGE):
        hint = "leave it out; a packed overlay, or an archive of conda-pack as --image, goes to each node in any case"
        yield Problem(f"--stage: {name} has no image", hint=hint)
    if request.stage and use.step and not (request.venv or request.image):
        yield Problem("--stage: no image is named", hint="name it with --image")
    if use.scheduler == HERE and request.nodes not in (None, 1):
        yield Problem(f"--nodes {request.nodes}: `{name}` runs on this machine alone", hint="leave --nodes out")
    if request.submit and not request.dry_run and use.scheduler == HERE:
        yield Problem("--submit: a local job is started, not submitted", hint=f"`bash {request.file}` starts it")


def _of_files(case: Case) -> Iterator[Problem]:
    venv = case.plan.request.venv
    yield from of_image_file(case.plan, case.disk)
    if venv and not case.disk.overlay:
        yield Problem(f"--venv {venv}: there is no such file or folder", hint="make one: `uenvtool venv PATH --squash`")


def _of_image(case: Case) -> Iterator[Problem]:
    """Yield why the runtime cannot run the image, or lay the overlay over it."""
    named, runtime, use, overlay = case.plan.request.image, case.plan.runtime, case.plan.use, case.plan.overlay
    if overlay and overlay.mount and not runtime.mount and (use.scheduler == HERE or use.image == CONTAINER):
        hint = f"unpack it, and name its folder: `unsquashfs -d FOLDER {overlay.path}`"
        yield Problem(f"--venv {overlay.path}: {runtime.name} mounts no image", hint=hint)
    if use.image == NO_IMAGE and named:
        yield Problem(f"--image {named}: {runtime.name} takes no image", hint="name another runtime with --runtime")
    if use.image == ENVIRONMENT and overlay and named.endswith(ARCHIVES):
        hint = "install its packages in the environment before it is packed, or name the environment's folder"
        yield Problem(f"--venv {overlay.path}: its base is not where an archive is unpacked", hint=hint)
    if use.image == UENV:
        yield from _of_uenv(case)
    elif case.plan.request.view != "default":
        yield Problem(f"--view {case.plan.request.view}: {runtime.name} loads no uenv", hint="leave it out")
    if use.image in (UENV, CONTAINER) and not case.plan.image:
        hint = "name it with --image or --recipe" if use.image == UENV else "name it with --image"
        yield Problem(f"no image is named, and {runtime.name} needs one", hint=hint)


def _of_uenv(case: Case) -> Iterator[Problem]:
    named, overlay, recipe = case.plan.request.image, case.plan.overlay, case.recipe
    if recipe and not named and not case.published:
        deployment = recipe.deployment
        served = ", ".join(f"{cluster} ({', '.join(uarchs)})" for cluster, uarchs in deployment.clusters.items())
        yield Problem(
            f"no uenv of {recipe.name} is published for {case.uarch}, the nodes of {case.system.name}"
            + (f"; {deployment.label} is on {served}" if deployment.label else ""),
            hint="build one (`uenvtool build`, `uenvtool image build`) and name it with --image, or take a container",
        )
    if REGISTRY.fullmatch(named):
        hint = "name a uenv by its label, or a runtime for containers with --runtime"
        yield Problem(f"{named} is an image of a registry, and {case.plan.runtime.name} runs none", hint=hint)
    yield from _of_view(case)
    yield from on_another_image(case.plan, case.published if recipe else "")
    for image in filter(None, (case.plan.image, overlay.path if overlay and overlay.mount else "")):
        if not _UENV.fullmatch(image):
            hint = "a label is NAME/VERSION:TAG@SYSTEM%UARCH; a path has letters, digits and _ . / - only: move it"
            yield Problem(f"uenv cannot read {image!r} as an image", hint=hint)


def _of_view(case: Case) -> Iterator[Problem]:
    """Yield the views that the image of a recipe, which is named or which a label tells, has not."""
    named = [view for view in case.plan.request.view.split(",") if ":" not in view]
    if case.known:
        views = case.known.all_views
        yield from (unknown(f"view of {case.known.name}", view, views) for view in named if view not in views)


def _of_launcher(case: Case) -> Iterator[Problem]:
    """Yield why nothing can start the ranks as it is asked for."""
    plan, system = case.plan, case.system
    request, use, command = plan.request, plan.use, plan.command
    most = system.nodes[case.uarch].gpu_count
    yield from over_gpus(plan, most)
    if request.launcher and request.launcher not in use.launchers:
        hint = f"leave it out: {use.launchers[0]} starts the ranks; known: {', '.join(use.launchers)}"
        yield Problem(f"--launcher {request.launcher}: {plan.runtime.name} has no {request.launcher}", hint=hint)
    if request.nccl_test and (request.launcher == TORCHRUN or SRUN not in use.launchers):
        yield Problem("--nccl-test: the tests are no Python", hint="srun starts them: leave --launcher out")
    if not (request.nccl_test or plan.opens_shell):
        yield from _of_words(case)
    reason = _refused_launchers(system, use).get(command.launcher)
    if reason and not request.nccl_test:
        hint = f"--launcher {usual_launcher(system, use)}"
        yield Problem(f"{command.launcher}: {reason.reason} [{reason.source}]", hint=hint)
    if request.gpu_per_rank and command.launcher != SRUN:
        yield Problem(
            f"--gpu-per-rank: {command.launcher} starts the ranks of a node, and they see all of its GPUs",
            hint='take --launcher srun; or in the program: torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
        )
    named_by, told = command.told_ranks
    if most and told > plan.ranks:
        yield Problem(
            f"{named_by} {told}: {command.launcher} would start more ranks than the {plan.ranks} GPUs of a node",
            hint=f"leave {named_by} out: the job has a rank for each GPU",
        )


def _of_words(case: Case) -> Iterator[Problem]:
    """Yield why the words would start a world of their own on each node or rank."""
    typed, launcher = case.typed, case.plan.command.launcher
    if typed.program in SUBMITTERS:
        yield _of_submitter(typed.program)
    if typed.program in _OF_THE_SHELL:
        yield Problem(
            f"{typed.program} is a word of the shell, and no program that a job can start",
            hint=f"put the whole line in quotes, as in -- '{typed.program} ... && python train.py'",
        )
    if typed.launcher:
        yield from _of_own_launcher(case)
    elif typed.inner:
        yield from _of_script(case, typed.inner)
    elif launcher != NONE and typed.starts_itself:
        yield Problem(
            f"{typed.starts_itself} starts the processes of a node itself, and {launcher} would start it once for each "
            "GPU",
            hint="--launcher none runs it once a node, with NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT for it",
        )


def _of_submitter(program: str, place: Position | None = None) -> Problem:
    if program in ("mpirun", "mpiexec"):
        hint = f"leave {program} and its options out: srun starts one rank for each GPU"
        return Problem(f"{program} in each task of the job would start a world of its own", place, hint)
    hint = f"leave {program} and its options out, or submit yours as it is"
    return Problem(f"the job itself is what {program} starts", place, hint)


def _of_own_launcher(case: Case) -> Iterator[Problem]:
    """Yield why the launcher that the words bring cannot be given what the job has for it."""
    typed, asked, ranks = case.typed, case.plan.request.launcher, case.plan.ranks
    name, launcher = typed.launcher, launchers()[typed.launcher]
    line = whole_line(launcher, ranks, " ".join(typed.words[typed.start : typed.end]))
    if not typed.rest:
        yield Problem(f"{name} has nothing to start", hint=f"for example -- {launcher.command} train.py")
    if asked == SRUN:
        yield Problem(f"--launcher srun would start {name} once for each GPU", hint="leave --launcher out")
    if asked == NONE:
        reason = isolation_reason(launcher, typed.options)
        if case.plan.nodes > 1 and reason:
            yield Problem(f"{reason}: each node would train by itself", hint=line)
        return
    own = given_by_job(launcher, typed, ranks)
    if own:
        them = "them" if own[1:] else "it"
        yield Problem(
            f"{', '.join(own)} of {name}: the job has its own for each node",
            hint=f"leave {them} out; or --launcher none, and in a script of yours: {line}",
        )


def _of_script(case: Case, started: tuple[Started, ...]) -> Iterator[Problem]:
    asked, first = case.plan.request.launcher, started[0]
    if first.name in SUBMITTERS:
        yield _of_submitter(first.name, first.place)
    if asked in (SRUN, TORCHRUN):
        hint = "leave --launcher out: it is run once a node"
        yield Problem(f"{asked} would start {first.name} once for each GPU", first.place, hint)
    reasons = []
    for one in started:
        if one.name in launchers():
            may_know = has_unknown(one.words) or option(one.words, "config_file") is not None
            reasons.append("" if asked == NONE and may_know else isolation_reason(launchers()[one.name], one.words))
    if case.plan.nodes > 1 and all(reasons):
        hint = f"{whole_line(launchers()[first.name], case.plan.ranks)}, or put it behind -- itself"
        yield Problem(f"{reasons[0]}: each node would train by itself", first.place, hint)


def _of_paths(case: Case) -> Iterator[Problem]:
    """Yield paths that the job's files cannot hold, or that its container would not see."""
    plan = case.plan
    if plan.use.image == CONTAINER and plan.use.scheduler != KUBERNETES:
        yield from _unmounted(case)
    overlay = plan.overlay
    if plan.request.stage and plan.use.image == CONTAINER:
        for image in (image for image in plan.images if not image.startswith(PATH_STARTS)):
            yield Problem(f"--stage: {image} is no file", hint="import it with enroot, and name the .sqsh file")
    if overlay is None:
        return
    if not plan.unpacks and not quoting.PLAIN_WORD.fullmatch(overlay.programs):
        hint = "letters, digits and _ . / - only: move it"
        yield Problem(f"the overlay's path {overlay.programs!r} cannot stand in a job", hint=hint)
    is_mounted = plan.use.scheduler == SLURM and (plan.use.step or plan.use.variables == "edf")
    if is_mounted and re.search(r"[:,$\n]", overlay.image):
        yield Problem(f"{overlay.image!r} cannot be mounted: the path has one of : , $", hint="move the image")


def _unmounted(case: Case) -> Iterator[Problem]:
    plan, disk = case.plan, case.disk
    home = [disk.home] if plan.use.step else []
    folder = plan.request.workdir or disk.folder
    seen = [mount.partition(":")[0] for mount in (*plan.knowledge.mounts, *plan.request.mount)]
    seen += [bind.inside for bind in plan.knowledge.binds] + [folder, *home]
    inside = [mount.rpartition(":")[2] for mount in plan.request.mount]
    for word in plan.command.words:
        path = word.rpartition("=")[2]
        if not path.startswith("/") or _HOST_FOLDERS.match(path) or not disk.exists(path):
            continue
        if plan.edf:
            is_seen, hint = plan.edf.shows(path, folder), mount_hint(plan.edf.path, os.path.dirname(path))
        else:
            is_seen = any(is_within(path, mount) for mount in (*seen, *inside))
            hint = f"--mount {os.path.dirname(path)}"
        if not is_seen:
            yield Problem(f"{path} is not mounted in the container", hint=hint)

"""The checks that reject an impossible job, each with a hint. Only the first problem is reported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from uenvtool.check.launchers import NONE, PYTHON_NAME, SRUN, TORCHRUN, has_unknown, isolation_reason, launchers, option
from uenvtool.core import quoting
from uenvtool.core.errors import Position, Problem, unknown
from uenvtool.core.words import is_within
from uenvtool.job.command import SUBMITTERS, Started, Typed, again, given_by_job, whole_line
from uenvtool.job.disk import Disk
from uenvtool.job.environment import misfit
from uenvtool.job.images import REGISTRY, mount_hint, of_image_file, on_another_image
from uenvtool.job.limits import over_gpus, over_limits
from uenvtool.job.plan import (
    ARCHIVES,
    CONTAINER,
    ENVIRONMENT,
    HERE,
    IMAGES,
    KUBERNETES,
    NO_IMAGE,
    PATH_STARTS,
    SLURM,
    UENV,
    JobPlan,
)
from uenvtool.job.shell import with_target
from uenvtool.knowledge.jobs import Refused
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.system import System

_NAME, _PATH = r"[A-Za-z0-9_][A-Za-z0-9_.-]*", r"[./][A-Za-z0-9_./-]*"
_UENV = re.compile(rf"({_PATH}|{_NAME}(/{_NAME})?(:{_NAME})?(@({_NAME}|\*)|%{_NAME})*)(:{_PATH})?")
"""The image names that uenv 9 and 10 accept: a path, or a name and tag, with an optional mount point
(eth-cscs/uenv, src/uenv/parse.cpp, parse_uenv_description)."""
_OF_THE_SHELL = frozenset(("cd", "source", ".", "export", "module", "ml", "set", "unset", "ulimit", "alias", "pushd"))
"""Shell built-ins that change the current shell and have no effect as a program."""
_SEPARATORS = re.compile(r"[:,$\n]")  # the end of a path, or a variable, for all runtimes
HOST_FOLDERS = re.compile(r"/(usr|bin|sbin|lib|lib64|etc|dev|proc|sys|opt|run|tmp|var)(/|\Z)")
"""Directories that are part of a container, or that contain no user data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """The input of all checks and warnings.

    recipe: the recipe in the request. known: the same, or else the recipe derived from the image name. published: the
    published uenv of `recipe`; without a recipe, the loaded uenv; empty if there is none. refused_launchers: the
    launchers that do not work on the system, by name. usual_launcher: the default launcher of the ranks.
    """

    system: System
    uarch: str
    disk: Disk
    typed: Typed
    recipe: Recipe | None
    known: Recipe | None
    published: str
    refused_launchers: Mapping[str, Refused]
    usual_launcher: str
    plan: JobPlan

    @property
    def folder(self) -> Path:
        """Return the directory in which the command runs."""
        return Path(self.plan.request.workdir or ".")


def refusals(case: Case) -> Iterator[Problem]:
    """Yield the problems of a job: its system, files, image, command and paths."""
    yield from _of_place(case)
    yield from _of_interactive(case.plan) if case.plan.request.interactive else ()
    yield from over_limits(case.plan, case.system)
    yield from of_image_file(case.plan, case.disk)
    yield from _of_image(case)
    yield from misfit(case.plan, case.disk, case.system.nodes[case.uarch], case.system.mount)
    yield from _of_launcher(case)
    yield from _without_torch(case)
    yield from _of_paths(case)


def _of_place(case: Case) -> Iterator[Problem]:
    plan, system = case.plan, case.system
    request, use, name = plan.request, plan.use, plan.runtime.name
    in_slurm = use.scheduler == SLURM
    if in_slurm and system.scheduler.name != SLURM:
        own = f"jobs: {{runtimes: {{{name}: {{scheduler: {{name: slurm}}}}}}}}"
        hint = f"use `uenvtool activate --system {system.name}` in your own script (docs/new-site.md has an example)"
        if system.scheduler.name == KUBERNETES:
            hint = f"if the cluster also has Slurm, add `{own}` to the file of {system.name}"
        yield Problem(f"{system.name} has no Slurm, which jobs of the runtime {name} need", hint=hint)
    needed = [option for option in system.jobs.required if in_slurm and option not in system.scheduler.defaults]
    lacking = [f"--{option}" for option in needed if not getattr(request, option)]
    if lacking:
        missing = ", ".join(lacking)
        yield Problem(f"{system.name} requires {missing}", hint="add your project's name, as in --account g123")
    if request.large and system.jobs.large is None:
        hint = "leave --large out, or use --option '--constraint=...'"
        yield Problem(f"--large: the file of {system.name} has no constraint for large runs", hint=hint)
    if request.stage and use.image in (ENVIRONMENT, NO_IMAGE):
        hint = "leave --stage out; packed overlays and conda-pack archives are always copied to each node"
        yield Problem(f"--stage: {name} has no image", hint=hint)
    if request.stage and use.step and not (request.venv or request.image):
        yield Problem("--stage: there is no image to copy", hint="name the image with --image")
    if use.scheduler == HERE and request.nodes not in (None, 1):
        why = f"the runtime {name} runs only on this machine"
        yield Problem(f"--nodes {request.nodes}: {why}", hint="leave --nodes out")


def _of_interactive(plan: JobPlan) -> Iterator[Problem]:
    nodes = plan.request.nodes
    if nodes not in (None, 1):
        starts = "opens a shell on one node" if plan.opens_shell else "starts one pod"
        yield Problem(f"--nodes {nodes}: --interactive {starts}", hint="leave --nodes out")
    if plan.unpacks and plan.overlay:
        hint = f"unpack the overlay and name its directory: `unsquashfs -d DIR {plan.overlay.path}`"
        yield Problem(f"--venv {plan.overlay.path}: --interactive cannot mount or unpack a packed overlay", hint=hint)
    if plan.is_sent:
        hint = f"unpack {plan.image}, run its bin/conda-unpack, and name the directory"
        yield Problem(f"--image {plan.image}: --interactive does not unpack archives", hint=hint)


def _of_image(case: Case) -> Iterator[Problem]:
    named, runtime, use, overlay = case.plan.request.image, case.plan.runtime, case.plan.use, case.plan.overlay
    if overlay and case.disk.environment is None:
        hint = "check the path, or create an overlay with `uenvtool venv PATH --squash`"
        yield Problem(f"--venv: overlay not found: '{case.plan.request.venv}'", hint=hint)
    if overlay and overlay.mount and not runtime.mount and (use.scheduler == HERE or use.image == CONTAINER):
        hint = f"unpack the overlay and name its directory: `unsquashfs -d DIR {overlay.path}`"
        yield Problem(f"--venv {overlay.path}: {runtime.name} cannot mount a packed overlay", hint=hint)
    if use.image == NO_IMAGE and named:
        hint = "leave --image out, or choose another runtime with --runtime"
        yield Problem(f"--image {named}: the runtime {runtime.name} uses no image", hint=hint)
    if use.image == ENVIRONMENT and overlay and named.endswith(ARCHIVES):
        hint = "install its packages in the environment before you pack it, or name the environment's directory"
        yield Problem(f"--venv {overlay.path}: an overlay cannot be combined with a packed environment", hint=hint)
    if use.image == UENV:
        yield from _of_uenv(case)
    if case.plan.writes_edf and "$" in case.plan.image and not case.plan.request.stage:
        hint = "set the variable, or write the whole path"
        yield Problem(f"--image {named or case.plan.image}: a variable in it is not set", hint=hint)
    if use.image in (UENV, CONTAINER) and not case.plan.image:
        hint = "name an image with --image or --recipe" if use.image == UENV else "name an image with --image"
        yield Problem(f"the runtime {runtime.name} needs an image", hint=hint)


def _of_uenv(case: Case) -> Iterator[Problem]:
    named, overlay, recipe = case.plan.request.image, case.plan.overlay, case.recipe
    if recipe and not named and not case.published:
        deployment = recipe.deployment
        served = ", ".join(f"{cluster} ({', '.join(uarchs)})" for cluster, uarchs in deployment.clusters.items())
        yield Problem(
            f"no uenv of {recipe.name} is published for the {case.uarch} nodes of {case.system.name}"
            + (f"; {deployment.label} is on {served}" if deployment.label else ""),
            hint="build one (`uenvtool build`, `uenvtool image build`) and name it with --image, or use a container",
        )
    if REGISTRY.fullmatch(named):
        hint = "use the image name and tag of a uenv, or choose a container runtime with --runtime"
        yield Problem(f"{named} is a registry image, which the runtime {case.plan.runtime.name} cannot run", hint=hint)
    views = case.known.all_views if case.known else ()
    for view in case.plan.request.view.split(","):
        if case.known and ":" not in view and view not in views:
            yield unknown(f"view of {case.known.name}", view, views)
    yield from on_another_image(case.plan, case.published if recipe else "")
    for image in filter(None, (case.plan.image, overlay.path if overlay and overlay.mount else "")):
        if not _UENV.fullmatch(image):
            hint = "write NAME/VERSION:TAG@SYSTEM%UARCH, or move the file to a path of only letters, digits and _ . / -"
            yield Problem(f"uenv does not accept {image!r} as an image", hint=hint)


def _of_launcher(case: Case) -> Iterator[Problem]:
    plan, system = case.plan, case.system
    request, use, command = plan.request, plan.use, plan.command
    most = system.nodes[case.uarch].gpu_count
    yield from over_gpus(plan, most)
    if request.launcher and request.launcher not in use.launchers:
        hint = f"leave it out, so that {use.launchers[0]} starts the ranks, or use one of: {', '.join(use.launchers)}"
        yield Problem(f"--launcher {request.launcher}: {plan.runtime.name} has no {request.launcher}", hint=hint)
    if request.nccl_test and (request.launcher == TORCHRUN or SRUN not in use.launchers):
        hint = "leave --launcher out, or choose a runtime with srun"
        yield Problem("--nccl-test: only srun can start the tests, which are not Python programs", hint=hint)
    if not plan.opens_shell:
        yield from _of_words(case)
    reason = case.refused_launchers.get(command.launcher)
    if reason and not (request.nccl_test or request.tests):
        hint = f"use --launcher {case.usual_launcher}"
        yield Problem(f"{command.launcher}: {reason.reason} [{reason.source}]", hint=hint)
    if request.gpu_per_rank and command.launcher != SRUN:
        yield Problem(
            f"--gpu-per-rank: {command.launcher} starts all ranks of a node, so each rank sees all GPUs",
            hint="use --launcher srun, or call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) in the program",
        )
    ranks_option, ranks = command.ranks_option
    if most and ranks > plan.ranks:
        yield Problem(
            f"{ranks_option} {ranks}: {command.launcher} would start more ranks than the {plan.ranks} GPUs of a node",
            hint=f"leave {ranks_option} out: the job starts one rank for each GPU",
        )


def _of_words(case: Case) -> Iterator[Problem]:
    typed, launcher = case.typed, case.plan.command.launcher
    if typed.program in SUBMITTERS:
        yield _of_submitter(typed.program)
    if typed.program in _OF_THE_SHELL:
        yield Problem(
            f"{typed.program} is a shell built-in and not a program",
            hint=f"quote the whole command line, as in -- '{typed.program} ... && python train.py'",
        )
    if typed.launcher:
        yield from _of_user_launcher(case)
    elif typed.inner:
        yield from _of_script(case, typed.inner)
    elif launcher != NONE and typed.alone:
        yield from _of_one_node(case)


def _of_one_node(case: Case) -> Iterator[Problem]:
    """Yield a problem if a server, or a launcher that supports only one node, would start in each task of a job."""
    typed, request, launcher = case.typed, case.plan.request, case.plan.command.launcher
    if typed.serves and case.plan.nodes * case.plan.ranks > 1:
        line = again(replace(request, launcher="none", nodes=1), case.system.name)
        problem = f"{typed.alone} is a server, but {launcher} would start one for each GPU, all on one port"
        yield Problem(problem, hint=f"start one server on one node: `{line}`")
    elif not typed.serves:
        line = again(replace(request, launcher="none"), case.system.name)
        yield Problem(
            f"{typed.alone} starts the processes of a node itself, but {launcher} would start it once for each GPU",
            hint="use --launcher none, which runs it once per node with NNODES, NODE_RANK, MASTER_ADDR and "
            f"MASTER_PORT: `{line}`",
        )


def _of_submitter(program: str, place: Position | None = None) -> Problem:
    if program in ("mpirun", "mpiexec"):
        hint = f"leave {program} and its options out, because srun starts one rank for each GPU"
        return Problem(f"{program} would start a separate training run in each task of the job", place, hint)
    hint = f"leave {program} and its options out, or submit your own script without `uenvtool job`"
    return Problem(f"the command of a job must not start {program}", place, hint)


def _of_user_launcher(case: Case) -> Iterator[Problem]:
    typed, asked, ranks = case.typed, case.plan.request.launcher, case.plan.ranks
    name, launcher = typed.launcher, launchers()[typed.launcher]
    line = whole_line(launcher, ranks, " ".join(typed.words[typed.start : typed.end]))
    if not typed.rest:
        hint = f"add a program, for example -- {launcher.command} train.py"
        yield Problem(f"{name} has no program to start", hint=hint)
    if asked == SRUN:
        yield Problem(f"--launcher srun would start {name} once for each GPU", hint="leave --launcher out")
    if asked == NONE:
        reason = isolation_reason(launcher, typed.options)
        if case.plan.nodes > 1 and reason:
            yield Problem(f"{reason}: each node would train separately", hint=f"use {line}")
        return
    conflicting = given_by_job(launcher, typed, ranks)
    if conflicting:
        them = "them" if conflicting[1:] else "it"
        yield Problem(
            f"{', '.join(conflicting)} of {name}: the job sets {them} on each node",
            hint=f"leave {them} out; or use --launcher none and in your own script: {line}",
        )


def _of_script(case: Case, started: tuple[Started, ...]) -> Iterator[Problem]:
    asked, first = case.plan.request.launcher, started[0]
    if first.name in SUBMITTERS:
        yield _of_submitter(first.name, first.place)
    if asked in (SRUN, TORCHRUN):
        hint = "leave --launcher out, so that the script runs once per node"
        yield Problem(f"{asked} would start {first.name} once for each GPU", first.place, hint)
    reasons = []
    for call in started:
        if call.name in launchers():
            may_know = has_unknown(call.words) or option(call.words, "config_file") is not None
            reasons.append("" if asked == NONE and may_know else isolation_reason(launchers()[call.name], call.words))
    if case.plan.nodes > 1 and reasons and all(reasons):
        known = next(call for call in started if call.name in launchers())
        hint = f"use {whole_line(launchers()[known.name], case.plan.ranks)}, or put {known.name} directly after --"
        yield Problem(f"{reasons[0]}: each node would train separately", known.place, hint)


def _without_torch(case: Case) -> Iterator[Problem]:
    """Yield a problem if the Python that the job finds on PATH has no PyTorch.

    The check skips a Python with a path, a shell script and `uv run`, because each uses its own environment.
    """
    plan, typed, system = case.plan, case.typed, case.system
    kind, known, name = plan.use.image, plan.knowledge, plan.runtime.name
    if plan.use.scheduler != SLURM or kind not in (ENVIRONMENT, NO_IMAGE) or plan.image or plan.overlay:
        return
    is_loaded = kind == NO_IMAGE and known.modules and known.torch
    program = typed.words[typed.start]
    is_by_name = "/" not in program and bool(typed.launcher or PYTHON_NAME.fullmatch(program))
    if is_loaded or case.disk.active or typed.runner or not is_by_name:
        return
    why = f"the file of {system.name} lists no modules for the runtime {name}"
    if known.modules:
        why = f"the modules of the runtime {name} on {system.name} do not contain it"
    ways = ["--venv with an environment that contains it"]
    if kind == ENVIRONMENT:
        ways.append("--image with a conda environment (directory or archive), or an active conda environment")
    others = [other for other in system.runtimes if other != name and load_runtime(other).job.image in IMAGES]
    if others:
        ways.append(f"--runtime {' or '.join(others)} with --image")
    if not known.modules and kind == NO_IMAGE:
        ways.append(f"`jobs: {{runtimes: {{{name}: {{modules: [...]}}}}}}` in the system's file")
    yield Problem(
        f"{program} would have no PyTorch: {why}", hint=f"use {', or '.join((*ways, 'the path of a Python after --'))}"
    )


def _of_paths(case: Case) -> Iterator[Problem]:
    plan = case.plan
    if plan.use.image == CONTAINER and plan.use.scheduler != KUBERNETES:
        yield from _of_mounts(plan)
        yield from _unmounted(case)
    overlay = plan.overlay
    if plan.request.stage and plan.use.image == CONTAINER:
        for image in (image for image in plan.images if not image.startswith(PATH_STARTS)):
            yield Problem(f"--stage: {image} is not a file", hint="import it with enroot, and name the .sqsh file")
    if overlay is None:
        return
    if not plan.unpacks and not quoting.PLAIN_WORD.fullmatch(overlay.programs):
        hint = "move it to a path of only letters, digits and _ . / -"
        yield Problem(f"a job cannot contain the overlay's path {overlay.programs!r}", hint=hint)


def _of_mounts(plan: JobPlan) -> Iterator[Problem]:
    name, targets = plan.runtime.name, plan.runtime.targets
    rows = [(f"--mount {mount}", *with_target(mount).split(":", 1)) for mount in plan.request.mount]
    if plan.overlay and plan.use.scheduler == SLURM:
        rows.append((f"--venv {plan.overlay.path}", plan.overlay.image, plan.overlay.mount or plan.overlay.image))
    for given, *ends in rows:
        for path in ends:
            if invalid := (plan.runtime.paths or _SEPARATORS).search(path):
                why = f"{name} does not accept a path that contains {invalid[0]!r}"
                yield Problem(f"{given}: {why}", hint="rename it or move it to another path")
        if targets and targets.search(ends[1]):
            hint = (
                "mount it at another path (--mount PATH:PATH)"
                if given.startswith("--mount")
                else "move it to another path"
            )
            yield Problem(f"{given}: {name} does not mount anything at {ends[1]}", hint=hint)


def _unmounted(case: Case) -> Iterator[Problem]:
    plan = case.plan
    folder = plan.request.workdir or os.getcwd()
    seen = [mount.rpartition(":")[2] for mount in (*plan.knowledge.mounts, *plan.request.mount)]
    seen += [bind.inside for bind in plan.knowledge.binds] + [folder]
    seen += [os.path.expanduser("~")] if plan.use.step and plan.use.home else []
    seen += plan.knowledge.site_fs.paths if plan.knowledge.site_fs else ()
    seen += [plan.overlay.place] if plan.overlay else []
    for word in plan.command.words:
        path = word.rpartition("=")[2]
        if not path.startswith("/") or HOST_FOLDERS.match(path) or not os.path.exists(path):
            continue
        if plan.edf:
            is_seen, hint = plan.edf.shows(path, folder), mount_hint(plan.edf.path, os.path.dirname(path))
        else:
            is_seen = any(is_within(path, mount) for mount in seen)
            hint = f"add --mount {os.path.dirname(path)}"
        if not is_seen:
            yield Problem(f"{path} is not mounted in the container", hint=hint)

"""Decides the plan of a job from the request, the system, the runtime and the disk, or rejects the request."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from uenvtool.check.launchers import NONE, SRUN
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.filling import filled_where_marked
from uenvtool.job.command import JobCommand, Typed, again, command_of, read_words, with_strategy
from uenvtool.job.directives import directives_of
from uenvtool.job.disk import EDF, Disk
from uenvtool.job.environment import through_its_python
from uenvtool.job.images import REGISTRY
from uenvtool.job.limits import fitting_time, of_cpus, ranks_and_cores
from uenvtool.job.plan import (
    ARCHIVES,
    CONTAINER,
    ENVIRONMENT,
    HERE,
    NO_IMAGE,
    PATH_STARTS,
    SLURM,
    UENV,
    JobPlan,
    Overlay,
)
from uenvtool.job.refusals import Case, refusals
from uenvtool.job.request import JobRequest
from uenvtool.job.shell import sibling
from uenvtool.job.warnings import run_of, warnings
from uenvtool.knowledge.checks import load_tuning
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.jobs import RuntimeJob
from uenvtool.knowledge.left_out import by_version
from uenvtool.knowledge.limits import limits_of
from uenvtool.knowledge.place import on_this_machine
from uenvtool.knowledge.recipe import Deployment, Recipe, read_recipe
from uenvtool.knowledge.recognise import recognised, this_system
from uenvtool.knowledge.runtime import JobUse, Runtime, all_runtimes, load_runtime
from uenvtool.knowledge.settings import Settings, chosen_workarounds, facts_of, hook_facts, recipe_of_label, settings_of
from uenvtool.knowledge.system import NodeType, System, load_system
from uenvtool.knowledge.tuning import TEMPORARY, Setting

if TYPE_CHECKING:
    from uenvtool.venv.info import Environment

NCCL_TEST = ("all_reduce_perf", "-b", "8", "-e", "4G", "-f", "2", "-g", "1")
"""An all-reduce of 8 bytes to 4 GB with one GPU per rank (https://github.com/NVIDIA/nccl-tests)."""
OF_PROCESSES = ("bash", "-c", 'exec "$(command -v all_reduce_perf_mpi || echo all_reduce_perf)" "$@"')
"""Starts the multi-process version of the test, which has its own name in NVIDIA's images
(NVIDIA's documentation of CloudAI 1.7, NCCL; NAME_SUFFIX in the README of nccl-tests)."""
MEMORY = "/dev/shm"  # on the compute node


def place_of(request: JobRequest) -> tuple[System, str, Runtime]:
    """Return the system, node type and runtime of a job. Raises BadInput for an unknown name."""
    name = request.system or ("local" if request.runtime == "local" and recognised() is None else this_system())
    system = on_this_machine(load_system(name))
    runtime = _runtime(request, system)
    system = system.under(runtime.name, runtime.job.scheduler)
    pools = system.jobs.of(runtime.name).pools
    if request.node_type and pools and request.node_type not in pools:
        raise BadInput([unknown(f"node type of {system.name}", request.node_type, pools)])
    place = pools.get(request.node_type) or system.partition(request.in_partition)
    uarch = (place.uarch if place else "") or next(iter(system.nodes))
    is_without = request.gpus == 0 and runtime.job.scheduler == SLURM and system.nodes[uarch].gpu
    return of_cpus(request, system, uarch) if is_without else system, uarch, runtime


def decide(
    request: JobRequest, system: System, uarch: str, runtime: Runtime, disk: Disk
) -> tuple[JobPlan, tuple[str, ...]]:
    """Return the plan of a job, and warnings about possible failures. Raises BadInput if the job is impossible."""
    words = request.words or ("sleep", "infinity")
    if request.nccl_test:
        words = (*OF_PROCESSES, *NCCL_TEST) if runtime.job.image == CONTAINER else NCCL_TEST
    typed = read_words(words, request.workdir)
    recipe = read_recipe(request.recipe) if request.recipe else None
    if request.workaround:
        chosen_workarounds(load_tuning(system.tuning), request.workaround)
    published = _published(recipe.deployment, system.name, uarch) if recipe else disk.loaded
    refused_launchers = system.jobs.refused if runtime.job.scheduler == SLURM else {}
    usual = next((name for name in runtime.job.launchers if name not in refused_launchers), NONE)
    if request.gpus == 0 and SRUN in runtime.job.launchers:
        usual = SRUN  # the environment of a job without GPUs may have no torch
    command = through_its_python(_command(request, runtime, typed, usual), disk)
    plan = _planned(request, system, uarch, runtime, disk, typed, command, published)
    named = recipe_of_label(plan.image) if plan.use.image == UENV else None
    case = Case(
        system=system,
        uarch=uarch,
        disk=disk,
        typed=typed,
        recipe=recipe,
        known=recipe or (read_recipe(named) if named else None),
        published=published,
        refused_launchers=refused_launchers,
        usual_launcher=usual,
        plan=plan,
    )
    for problem in refusals(case):
        raise BadInput([problem])
    plan = replace(_with_settings(plan, system, uarch, case.known), run=run_of(case))
    return plan, tuple(warnings(replace(case, plan=plan)))


def _planned(
    request: JobRequest,
    system: System,
    uarch: str,
    runtime: Runtime,
    disk: Disk,
    typed: Typed,
    command: JobCommand,
    published: str,
) -> JobPlan:
    use, knowledge, node = runtime.job, system.jobs.of(runtime.name), system.nodes[uarch]
    defaults, limits = system.scheduler.defaults, limits_of(system, request.in_partition, request.qos)
    gpus, ranks, cores = _size(request, system, node, use, disk)
    nodes = 1 if use.scheduler == HERE or request.interactive else request.nodes or int(defaults.get("nodes", 1))
    command = with_strategy(command, typed, nodes * ranks, has_gpus=gpus > 0)
    tasks = 1 if command.once_per_node else ranks
    overlay = _overlay(request.venv, disk.environment) if request.venv else None
    edf = disk.edf if use.variables == "edf" else None
    image = edf.image or edf.path if edf else _image(request, runtime, knowledge, overlay, published)
    if use.variables == "edf" and not edf and image.startswith(PATH_STARTS) and not request.stage:
        image = _whole(image)  # Sarus Suite expands no variable in the path
    extended = knowledge.extended if knowledge.extended and knowledge.extended.image.search(image) else None
    packed = overlay if overlay and overlay.mount else None
    images = (image, packed.image) if packed else (image,)
    node_folder = system.jobs.local.folder if system.jobs.local else MEMORY
    has_recipe = use.image == UENV and recipe_of_label(image) != request.recipe
    return JobPlan(
        request=request,
        knowledge=knowledge,
        system=system.name,
        runtime=runtime,
        command=command,
        nodes=nodes,
        ranks=ranks,
        tasks=tasks,
        gpus=gpus,
        cores=cores // tasks,
        time=request.time or fitting_time(defaults.get("time", ""), limits, nodes + (request.spare or 0)),
        name=request.name or _name_of(request, typed),
        image=image,
        overlay=overlay,
        extended=extended,
        gpu=node.gpu.vendor if node.gpu else "",
        binding=node.binding.get(command.launcher) if ranks == node.gpu_count else None,
        local=system.jobs.local,
        recipe=request.recipe or "" if has_recipe else "",
        again=again(request, system.name),
        opens_shell=request.interactive and use.scheduler == SLURM,
        images=images,
        views=_views(request.view, overlay),
        unpacks=bool(packed) and use.image in (ENVIRONMENT, NO_IMAGE),
        is_sent=use.image == ENVIRONMENT and image.endswith(ARCHIVES),
        node_folder=node_folder,
        copies=_copies(images, node_folder),
        edf_file=edf.path if edf else sibling(request.file, EDF),
        writes_edf=use.variables == "edf" and edf is None,
        mpi=knowledge.mpi if (request.nccl_test or request.tests) and extended is None else None,
        edf=edf,
        array=request.further("array", "a") or request.array,
    )


def _views(named: str, overlay: Overlay | None) -> str:
    if overlay is None:
        return named
    base = overlay.base_view if overlay.base_view and named == "default" else named
    # The last view is first on PATH, so that the programs of the overlay have priority.
    return f"{base},{overlay.view}" if overlay.mount else base


def _whole(path: str) -> str:
    expanded = os.path.expandvars(path)
    return expanded if expanded.startswith("$") else os.path.abspath(expanded)


def _copies(images: tuple[str, ...], folder: str) -> tuple[str, ...]:
    named = (PurePath(image).suffix if image.startswith(PATH_STARTS) else "" for image in images)
    suffixes = (suffix if re.fullmatch(r"[.][A-Za-z]+", suffix) else ".squashfs" for suffix in named)
    return tuple(f"{folder}/$SLURM_JOB_ID-{index}{suffix}" for index, suffix in enumerate(suffixes))


def _size(request: JobRequest, system: System, node: NodeType, use: JobUse, disk: Disk) -> tuple[int, int, int]:
    """Return the numbers of GPUs, ranks and cores per node."""
    if use.scheduler == HERE:
        return disk.gpus, request.gpus or disk.gpus or 2, 0
    gpus = int(system.scheduler.defaults.get("gpus-per-node", 0)) or node.gpu_count
    if use.scheduler == SLURM and not gpus:
        return 0, *ranks_and_cores(request, system, node)
    ranks = request.gpus or gpus or 2
    return ranks, ranks, node.cores * ranks // node.gpu_count if node.gpu_count else 0


def _with_settings(plan: JobPlan, system: System, uarch: str, recipe: Recipe | None) -> JobPlan:
    facts = system.facts(uarch)
    if plan.use.variables != "nowhere":
        settings = _settings(plan, system, uarch, recipe)
        facts = {**facts, **settings.given}
        inside = plan.use.variables in ("edf", "activation")  # other runtimes set the variables outside the container
        plan = replace(
            plan,
            settings=_written_down(settings, inside=inside),
            by_hook=settings.by_hook,
            left_out={} if plan.extended else by_version(settings, inside=inside),
            activation=_activation(plan, settings) if plan.use.variables == "activation" else "",
        )
    binding = plan.binding if plan.binding and plan.binding.when.holds(facts) else None
    one_gpu_per_rank = plan.request.gpu_per_rank or bool(binding and binding.gpus)
    plan = replace(plan, binding=binding, one_gpu_per_rank=one_gpu_per_rank)
    return replace(plan, directives=directives_of(plan, system, uarch)) if plan.use.scheduler == SLURM else plan


def _runtime(request: JobRequest, system: System) -> Runtime:
    """Return the named runtime, or else the first one that can run the image."""
    of_registry = REGISTRY.fullmatch(request.image)
    known: dict[str, Runtime] = {}
    for runtime in _runtimes(system):
        is_usual = not of_registry or runtime.job.image == CONTAINER
        if request.image.endswith(EDF):
            is_usual = runtime.job.variables == "edf"
        if runtime.name == request.runtime or (not request.runtime and is_usual):
            return runtime
        known[runtime.name] = runtime
    if known and not request.runtime:
        return next(iter(known.values()))
    raise BadInput([unknown(f"runtime of {system.name}", request.runtime, known)])


def _runtimes(system: System) -> Iterator[Runtime]:
    yield from (runtime for name in system.runtimes if (runtime := load_runtime(name)).job.scheduler)
    yield from (runtime for runtime in all_runtimes() if runtime.job.scheduler == HERE)


def _command(request: JobRequest, runtime: Runtime, typed: Typed, usual: str) -> JobCommand:
    if request.interactive and runtime.job.scheduler == SLURM:
        return JobCommand(words=typed.words if request.words else ("bash",), launcher=NONE)
    asked = SRUN if request.nccl_test else request.launcher or ""
    return command_of(typed, asked, usual if request.words else NONE)


def _published(deployment: Deployment, system: str, uarch: str) -> str:
    serving = [cluster for cluster, uarchs in deployment.clusters.items() if uarch in uarchs]
    if not deployment.label or not serving:
        return ""
    label = f"{deployment.label}:{deployment.tag}"
    # The Slurm plugin needs `@CLUSTER` only if another cluster with these nodes provides the uenv.
    return label if system in serving else f"{label}@{serving[0]}"


def _image(
    request: JobRequest, runtime: Runtime, knowledge: RuntimeJob, overlay: Overlay | None, published: str
) -> str:
    kind, named = runtime.job.image, request.image
    if kind == NO_IMAGE:
        return ""
    if kind == ENVIRONMENT:
        return named
    if kind == UENV:
        return named or (overlay.base_image if overlay else "") or published
    of_registry = REGISTRY.fullmatch(named)
    if of_registry:
        return filled_where_marked(runtime.job.registry, HOST=of_registry["host"], NAME=of_registry["name"])
    return named or knowledge.image


def _overlay(path: str, environment: Environment | None) -> Overlay:
    if environment is None:
        return Overlay(path=os.path.abspath(path))
    packed = environment.is_packed
    return Overlay(
        path=path if packed else os.path.abspath(path),
        mount=environment.mount or "/user-tools" if packed else "",
        view=f"{environment.name}:venv" if packed else "",
        base_image=environment.image,
        base_view=environment.view,
        site=environment.site,
    )


def _settings(plan: JobPlan, system: System, uarch: str, recipe: Recipe | None) -> Settings:
    return settings_of(
        [system],
        [plan.runtime],
        uarch=uarch,
        facts={
            **(facts_of(recipe, system, uarch) if recipe else {}),
            "nodes": str(plan.nodes),
            **({"image": plan.runtime.extended_kind} if plan.extended else {}),
            **_hook(plan, system),
        },
        workarounds=plan.request.workaround,
        recipe=plan.request.recipe or (recipe.name if recipe else ""),
    )


def _hook(plan: JobPlan, system: System) -> Facts:
    if plan.edf is None:
        return {}
    if plan.edf.netstack is None:
        return {"hook": None}
    return hook_facts(system, plan.runtime.name, plan.edf.netstack)


def _written_down(settings: Settings, *, inside: bool) -> tuple[Setting, ...]:
    """Return the settings with a value and the variables to unset. Other lines of the job write the other settings."""
    is_file = settings.runtimes[0].job.variables == "edf"  # an EDF cannot have a different value for each job
    return tuple(
        setting
        for setting in settings.held(inside=inside, image_sets=True)
        if setting.removes or setting.is_fixed or (setting.from_ == TEMPORARY and not is_file)
    )


def _activation(plan: JobPlan, settings: Settings) -> str:
    from uenvtool.activation import activate  # only pods need it

    facts = {"nodes": str(plan.nodes)}
    return activate.text(settings, "bash", activate.command(settings, "bash", None, plan.runtime.name, facts))


def _name_of(request: JobRequest, typed: Typed) -> str:
    file_name = request.output.stem if request.output else ""
    for word in (file_name, NCCL_TEST[0] if request.nccl_test else "", typed.named if request.words else "interactive"):
        name = re.sub(r"[^\w.-]+", "-", word).strip("-.")
        if name:
            return name
    return "job"

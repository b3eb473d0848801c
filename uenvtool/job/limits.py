"""Checks a job against the limits of its nodes and its partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from uenvtool.core.errors import Problem
from uenvtool.core.options import option_name
from uenvtool.job.plan import HERE, SLURM, JobPlan
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.jobs import Partition, minutes, time_text
from uenvtool.knowledge.system import NodeType, System

TASKS, CORES = "ntasks-per-node", "cpus-per-task"
"""The sbatch options for the ranks per node and the cores per rank of a job without GPUs."""


def of_cpus(request: JobRequest, system: System, uarch: str) -> System:
    """Return the system with only its nodes without GPUs if a job asks for no GPU and such nodes are known.

    A partition that the system's file does not contain may have such nodes.
    """
    known = system.jobs.partitions
    named, cpu = request.in_partition, system.jobs.cpu
    requested = minutes(request.time) if request.time else 0
    fitting = [
        each.name for each in known.values() if each.gpus == 0 and each.accepts(request.nodes or 1, 0, requested)
    ]
    usual = cpu.partition if cpu and cpu.partition in fitting else next(iter(fitting), cpu.partition if cpu else "")
    if named and named in known and known[named].gpus != 0:
        return system
    return system.without_gpus(uarch, named or usual) if named or usual or cpu else system


def limits_of(request: JobRequest, system: System) -> list[tuple[str, Partition]]:
    """Return the partition and the QOS of a job whose limits are known, each with its option."""
    both = (("--partition", system.partition(request.in_partition)), ("--option --qos", system.qos(request.qos)))
    return [(option, limit) for option, limit in both if limit]


def fitting_time(default: str, limits: Iterable[tuple[str, Partition]], nodes: int) -> str:
    """Return the default time limit of a system, reduced to the limits of the partition and QOS for these nodes."""
    most = min((limit.minutes(nodes) for _, limit in limits if nodes), default=float("inf"))
    return time_text(most) if default and minutes(default) > most else default


def ranks_and_cores(request: JobRequest, system: System, node: NodeType) -> tuple[int, int]:
    """Return the ranks and the cores of a job on a node without GPUs. By default, one rank uses all cores."""
    defaults = system.scheduler.defaults
    ranks, cores = (
        int(asked) if asked.isdecimal() else 0
        for asked in (
            request.further(TASKS) or defaults.get(TASKS, ""),
            request.further(CORES, "c") or defaults.get(CORES, ""),
        )
    )
    ranks = ranks or (node.cores // cores if cores else 0) or 1
    return ranks, cores * ranks or node.cores


def over_gpus(plan: JobPlan, most: int) -> Iterator[Problem]:
    """Yield a problem if a job requests more GPUs than its nodes have. most: the GPUs per node in the system's file."""
    request, where = plan.request, f"a node of {plan.system}"
    if plan.use.scheduler == HERE:
        most, where = plan.gpus, "this machine"
    if request.gpus == 0 and (most or plan.use.scheduler != SLURM):
        yield _without_partition(plan)
    if most and plan.ranks > most:
        yield Problem(f"--gpus {plan.ranks}: {where} has {most}", hint=f"use at most --gpus {most}")
    if plan.use.scheduler != SLURM or plan.gpus:
        return
    for name in ("gpus", "gpu_per_rank", "nccl_test"):
        if getattr(request, name):
            hint = f"use --option --{TASKS}=4 for 4 ranks per node; if it has GPUs, add `gpu:` to the system's file"
            yield Problem(f"{option_name(JobRequest, name)}: {where} has no GPU", hint=hint)


def _without_partition(plan: JobPlan) -> Problem:
    if plan.use.scheduler != SLURM:
        return Problem("--gpus 0: must be at least 1", hint="for example --gpus 2")
    where, hint = f"{plan.system} has no partition without GPUs", "leave --gpus out, and use --nodes 1 --launcher none"
    if named := plan.request.in_partition:
        where = f"the nodes of {named} of {plan.system} have GPUs"
    return Problem(f"--gpus 0: {where}", hint=f"{hint}, which runs the command once with all cores of a node")


def over_limits(plan: JobPlan, system: System) -> Iterator[Problem]:
    """Yield each limit of the partition and QOS that a job exceeds. The hint names the limit or another place."""
    if plan.use.scheduler == SLURM and system.scheduler.name == SLURM:
        for option, limit in limits_of(plan.request, system):
            yield from _over_limit(plan, system, option, limit)


def _over_limit(plan: JobPlan, system: System, option: str, limit: Partition) -> Iterator[Problem]:
    request = plan.request
    is_qos = option != "--partition"
    nodes = plan.nodes + (request.spare or 0)
    gpus = nodes * plan.ranks if plan.gpu else 0
    requested = minutes(request.time) if request.time else 0
    name = f"the QOS {limit.name}" if is_qos else limit.name
    place = f"a job in {name} of {system.name}"
    known = system.jobs.qos if is_qos else system.jobs.partitions
    others = [other.name for other in known.values() if other.accepts(nodes, gpus, requested)]
    other = f"{option}{'=' if is_qos else ' '}{', '.join(others)}" if others else ""
    if limit.gpus == 0 and gpus:
        hint = f"use {other}" if other else "name another partition with --partition"
        yield Problem(
            f"{limit.name} of {system.name} has no GPUs [{limit.source}]",
            hint=f"{hint}, or --gpus 0 for a job without GPUs",
        )
    elif limit.gpus and gpus > limit.gpus:
        fitting = f"--nodes {max(limit.gpus // plan.ranks, 1)}"
        yield _over(f"{gpus} GPUs: {place} can have at most {limit.gpus}", limit, fitting, other)
    if limit.nodes and nodes > limit.nodes:
        yield _over(f"{nodes} nodes: {place} can have at most {limit.nodes}", limit, f"--nodes {limit.nodes}", other)
    most = limit.minutes(nodes)
    if requested > most:
        on_nodes = f" on {nodes} node{'s' if nodes > 1 else ''}" if limit.node_minutes or limit.bins else ""
        message = f"--time {request.time}: {place}{on_nodes} can run at most {time_text(most)}"
        yield _over(message, limit, f"--time {time_text(most)}", other)


def _over(message: str, limit: Partition, fitting: str, other: str) -> Problem:
    return Problem(f"{message} [{limit.source}]", hint=f"use {', or '.join(filter(None, (fitting, other)))}")

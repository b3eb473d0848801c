"""Checks a job against the limits of its nodes and its partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from uenvtool.core.errors import Problem
from uenvtool.core.options import option_name
from uenvtool.job.plan import HERE, SLURM, JobPlan
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.jobs import Partition, minutes, time_text
from uenvtool.knowledge.limits import NODES, QOS, TIME, excesses
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
    if plan.use.scheduler != SLURM or system.scheduler.name != SLURM:
        return
    request, nodes = plan.request, plan.nodes + (plan.request.spare or 0)
    gpus = nodes * plan.ranks if plan.gpu else 0
    for excess in excesses(system, request.in_partition, request.qos, nodes, gpus, request.time or ""):
        option = "--option --qos=" if excess.kind == QOS else "--partition "
        other = f"{option}{', '.join(excess.others)}" if excess.others else ""
        if not excess.most:
            hint = f"use {other}" if other else "name another partition with --partition"
            yield Problem(excess.says, hint=f"{hint}, or --gpus 0 for a job without GPUs")
            continue
        if excess.of == TIME:
            value, fitting = f"--time {request.time}", f"--time {excess.most}"
        else:
            most = int(excess.most) if excess.of == NODES else max(int(excess.most) // plan.ranks, 1)
            value, fitting = f"{nodes} nodes" if excess.of == NODES else f"{gpus} GPUs", f"--nodes {most}"
        yield Problem(f"{value}: {excess.says}", hint=f"use {', or '.join(filter(None, (fitting, other)))}")

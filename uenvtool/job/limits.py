"""Checks a job against the limits of its nodes and its partition."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core.errors import Problem
from uenvtool.core.options import option_name
from uenvtool.job.plan import HERE, SLURM, JobPlan
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.jobs import Partition, minutes, time_text
from uenvtool.knowledge.system import NodeType, System

TASKS, CORES = "ntasks-per-node", "cpus-per-task"
"""The sbatch options for the ranks per node and the cores per rank of a job without GPUs."""


def fitting_time(default: str, partition: Partition | None, nodes: int) -> str:
    """Return the default time limit of a system, reduced to the limit of the partition for this number of nodes."""
    most = partition.minutes(nodes) if partition and nodes else float("inf")
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
    if most and plan.ranks > most:
        yield Problem(f"--gpus {plan.ranks}: {where} has {most}", hint=f"use at most --gpus {most}")
    if plan.use.scheduler != SLURM or plan.gpus:
        return
    for name in ("gpus", "gpu_per_rank", "nccl_test"):
        if getattr(request, name):
            hint = f"use --option --{TASKS}=4 for 4 ranks per node; if it has GPUs, add `gpu:` to the system's file"
            yield Problem(f"{option_name(JobRequest, name)}: {where} has no GPU", hint=hint)


def over_limits(plan: JobPlan, system: System) -> Iterator[Problem]:
    """Yield each partition limit that a job exceeds. The hint names the limit or another partition."""
    request = plan.request
    limit = system.partition(request.in_partition)
    if limit is None or plan.use.scheduler != SLURM or system.scheduler.name != SLURM:
        return
    nodes = plan.nodes + (request.spare or 0)
    gpus = nodes * plan.ranks if plan.gpu else 0
    requested = minutes(request.time) if request.time else 0
    place = f"a job in {limit.name} of {system.name}"
    others = [
        partition.name for partition in system.jobs.partitions.values() if partition.accepts(nodes, gpus, requested)
    ]
    other = f"--partition {', '.join(others)}" if others else ""
    if limit.gpus == 0 and gpus:
        yield Problem(
            f"{limit.name} of {system.name} has no GPUs [{limit.source}]",
            hint=f"use {other}" if other else "name another partition with --partition",
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

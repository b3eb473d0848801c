"""What a job asks for that the nodes or the partition of its system do not give."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core.errors import Problem
from uenvtool.job.plan import HERE, SLURM, JobPlan
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.partition import Partition, minutes, time_text
from uenvtool.knowledge.system import NodeType, System

TASKS, CORES = "ntasks-per-node", "cpus-per-task"
"""The options of sbatch by which a job without GPUs says how many ranks a node has, and cores a rank."""


def fitting_time(default: str, partition: Partition | None, nodes: int) -> str:
    """Return the usual time of a system's jobs, or the most that a partition gives so many nodes."""
    most = partition.minutes(nodes) if partition and nodes else float("inf")
    return time_text(most) if default and minutes(default) > most else default


def ranks_and_cores(request: JobRequest, system: System, node: NodeType) -> tuple[int, int]:
    """Return the ranks and the cores of a node without GPUs, as asked for; where neither is, one rank has all cores."""
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
    """Yield what a job asks of GPUs that its nodes do not have. most: GPUs of a node, as the system's file has them."""
    request, where = plan.request, f"a node of {plan.system}"
    if plan.use.scheduler == HERE:
        most, where = plan.gpus, "this machine"
    if most and plan.ranks > most:
        yield Problem(f"--gpus {plan.ranks}: {where} has {most}", hint=f"at most --gpus {most}")
    if plan.use.scheduler != SLURM or plan.gpus:
        return
    for name in ("gpus", "gpu_per_rank", "nccl_test"):
        if getattr(request, name):
            hint = (
                f"--option --{TASKS}=4 asks for 4 ranks of a node; if it has GPUs, write `gpu:` into the system's file"
            )
            yield Problem(f"--{name.replace('_', '-')}: {where} has no GPU", hint=hint)


def over_limits(plan: JobPlan, system: System) -> Iterator[Problem]:
    """Yield the limits of a partition that a job is over, each with what the partition or another gives."""
    request = plan.request
    limit = system.partition(request.in_partition)
    if limit is None or plan.use.scheduler != SLURM or system.scheduler.name != SLURM:
        return
    nodes = plan.nodes + (request.spare or 0)
    gpus = nodes * plan.ranks if plan.gpu else 0
    wanted = minutes(request.time) if request.time else 0
    place = f"a job in {limit.name} of {system.name}"
    others = [one.name for one in system.jobs.partitions.values() if one.accepts(nodes, gpus, wanted)]
    other = f"--partition {', '.join(others)}" if others else ""
    if limit.gpus == 0 and gpus:
        yield Problem(
            f"{limit.name} of {system.name} has no GPUs [{limit.source}]", hint=other or "name another with --partition"
        )
    elif limit.gpus and gpus > limit.gpus:
        fitting = f"--nodes {max(limit.gpus // plan.ranks, 1)}"
        yield _over(f"{gpus} GPUs: {place} has at most {limit.gpus}", limit, fitting, other)
    if limit.nodes and nodes > limit.nodes:
        yield _over(f"{nodes} nodes: {place} has at most {limit.nodes}", limit, f"--nodes {limit.nodes}", other)
    most = limit.minutes(nodes)
    if wanted > most:
        on_nodes = f" on {nodes} node{'s' if nodes > 1 else ''}" if limit.node_minutes or limit.bins else ""
        what = f"--time {request.time}: {place}{on_nodes} runs at most {time_text(most)}"
        yield _over(what, limit, f"--time {time_text(most)}", other)


def _over(what: str, limit: Partition, fitting: str, other: str) -> Problem:
    return Problem(f"{what} [{limit.source}]", hint=", or ".join(filter(None, (fitting, other))))

"""The options of sbatch in a job's #SBATCH lines, each with its value and reason; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from uenvtool.check.launchers import NONE
from uenvtool.core.filling import filled_where_marked
from uenvtool.job.limits import CORES, TASKS
from uenvtool.job.plan import JobPlan
from uenvtool.knowledge.jobs import Explained
from uenvtool.knowledge.system import NodeType, System

PLANNED = ("partition", "nodes", "time", "mem", "gpus-per-node")
"""The usual options of a system that are part of the plan; others are written as they are."""


def directives_of(plan: JobPlan, system: System, uarch: str) -> tuple[Explained, ...]:
    """Return the options of a job, in the order of its lines."""
    joined = _joined([*_of_request(plan, system), *_of_system(plan, system)])
    return tuple(_share(one, plan, system, system.nodes[uarch]) if one.name == "mem" else one for one in joined)


def _share(memory: Explained, plan: JobPlan, system: System, node: NodeType) -> Explained:
    """Return the memory of a node, or the share of the GPUs that a job has of it, where others may have the rest."""
    found = re.fullmatch(r"(\d+)([KMGT]?)", memory.value)
    if system.scheduler.exclusive or plan.ranks >= node.gpu_count or found is None:
        return memory
    amount, unit = int(found[1]), found[2]
    if not amount:  # all of the node
        amount, unit = node.memory, "G"
    if not amount:
        return memory
    reason = f"{plan.ranks} of the node's {node.gpu_count} GPUs, and as much of its {amount}{unit or 'M'}"
    return Explained("mem", f"{amount * plan.ranks // node.gpu_count}{unit}", reason)


def _of_request(plan: JobPlan, system: System) -> Iterator[Explained]:
    request, defaults = plan.request, system.scheduler.defaults
    yield Explained("job-name", plan.name)
    if request.account:
        yield Explained("account", request.account)
    if request.partition or "partition" in defaults:
        yield Explained("partition", request.partition or defaults["partition"])
    spare = request.spare or 0
    yield Explained("nodes", str(plan.nodes + spare), f"{spare} more than training needs, see --vet" if spare else "")
    if plan.time:
        is_cut = not request.time and plan.time != defaults.get("time")
        yield Explained("time", plan.time, "the most that this partition gives" if is_cut else "")
    starts = "the command starts its ranks itself"
    if plan.command.launcher != NONE:
        starts = f"{plan.command.launcher} starts the ranks"
    elif plan.opens_shell:
        starts = "the shell"
    of_rank = "one rank for each GPU" if plan.gpus else "the ranks, which meet by gloo: there is no GPU"
    yield Explained(TASKS, str(plan.tasks), starts if plan.command.once_a_node else of_rank)
    if plan.cores:
        yield Explained(CORES, str(plan.cores))
    yield from _gpus(plan)
    if "mem" in defaults:
        yield Explained("mem", defaults["mem"])
    if not request.stage:
        images = ",".join(plan.images)
        for name, value in plan.use.sbatch.items():
            yield Explained(name, filled_where_marked(value, IMAGES=images, VIEWS=plan.views))
    if request.workdir:
        yield Explained("chdir", request.workdir)
    yield Explained("output", "slurm-%x-%j.log", "all ranks, each line with its task")


def _gpus(plan: JobPlan) -> Iterator[Explained]:
    if not plan.gpus:
        return
    if not plan.own_gpu:
        yield Explained("gpus-per-node", str(plan.ranks), "each rank sees all; its own is device LOCAL_RANK")
        return
    closest = plan.binding.gpus if plan.binding else ""
    local = "LOCAL_RANK is 0 too" if closest else "also where LOCAL_RANK is 1 or more"
    yield Explained("gpus-per-task", "1", f"each rank sees its own as device 0, {local}")
    if plan.binding and closest:
        yield Explained("gpu-bind", closest, plan.binding.reason)


def _of_system(plan: JobPlan, system: System) -> Iterator[Explained]:
    """Yield what the system's jobs, the settings and the further wishes of a request need."""
    request = plan.request
    for name, value in system.scheduler.defaults.items():
        if name not in PLANNED:
            yield Explained(name, value)
    yield from system.jobs.options
    for setting in (*plan.settings, *plan.by_hook):
        if setting.needs:
            whose = " of the hook" if setting in plan.by_hook else ""
            reason = f"{setting.name}={setting.value}{whose} needs it"
            yield Explained("network", setting.needs.contains, reason)
    if plan.extended:
        yield from plan.extended.options
    if plan.local and plan.local.constraint and (plan.is_sent or plan.unpacks or request.stage):
        yield Explained("constraint", plan.local.constraint, plan.local.reason)
    if request.large and system.jobs.large:
        yield Explained("constraint", system.jobs.large.constraint, system.jobs.large.reason)
    if request.requeue:
        yield Explained("requeue", "")
        yield Explained("signal", "B:USR1@120", "two minutes before the limit")
        yield Explained("open-mode", "append", "a later run writes on in the same file")


def _joined(directives: Iterable[Explained]) -> tuple[Explained, ...]:
    """Return the options, each once: constraints hold together, of another option the last counts."""
    found: dict[str, Explained] = {}
    for one in directives:
        first = found.setdefault(one.name, one)
        if first is not one:
            both = one.name == "constraint" and first.value != one.value
            value = f"{first.value}&{one.value}" if both else one.value
            reason = "; ".join(dict.fromkeys(filter(None, (first.reason, one.reason))))
            found[one.name] = Explained(one.name, value, reason)
    return tuple(found.values())

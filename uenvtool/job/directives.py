"""The sbatch options in the #SBATCH lines of a job, each with its value and reason; pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from uenvtool.check.launchers import NONE
from uenvtool.core.filling import filled_where_marked
from uenvtool.job.limits import CORES, TASKS
from uenvtool.job.plan import ARRAY, JobPlan
from uenvtool.knowledge.jobs import Explained
from uenvtool.knowledge.system import NodeType, System

PLANNED = ("partition", "nodes", "time", "mem", "gpus-per-node")
"""The default options of a system that the plan contains; other defaults are written unchanged."""


def directives_of(plan: JobPlan, system: System, uarch: str) -> tuple[Explained, ...]:
    """Return the sbatch options of a job in the order of its lines."""
    joined = _joined([*_of_request(plan, system), *_of_system(plan, system)])
    node = system.nodes[uarch]
    return tuple(_memory_of_share(option, plan, system, node) if option.name == "mem" else option for option in joined)


def _memory_of_share(memory: Explained, plan: JobPlan, system: System, node: NodeType) -> Explained:
    size = re.fullmatch(r"(\d+)([KMGT]?)", memory.value)
    if system.scheduler.exclusive or plan.ranks >= node.gpu_count or size is None:
        return memory
    amount, unit = int(size[1]), size[2]
    if not amount:  # 0 is all memory of the node
        amount, unit = node.memory, "G"
    if not amount:
        return memory
    reason = f"the share of {plan.ranks} of the node's {node.gpu_count} GPUs in its {amount}{unit or 'M'}"
    return Explained("mem", f"{amount * plan.ranks // node.gpu_count}{unit}", reason)


def _of_request(plan: JobPlan, system: System) -> Iterator[Explained]:
    request, defaults = plan.request, system.scheduler.defaults
    yield Explained("job-name", plan.name)
    if request.account:
        yield Explained("account", request.account)
    if request.partition or "partition" in defaults:
        yield Explained("partition", request.partition or defaults["partition"])
    spare = request.spare or 0
    yield Explained(
        "nodes", str(plan.nodes + spare), f"{spare} more than the training needs, see --vet" if spare else ""
    )
    if request.array:
        yield Explained("array", request.array, f"one job for each number, which replaces {ARRAY} in the command")
    if plan.time:
        yield Explained("time", plan.time, _of_time(plan, system))
    starts = "the command starts its ranks itself"
    if plan.command.launcher != NONE:
        starts = f"{plan.command.launcher} starts the ranks"
    elif plan.opens_shell:
        starts = "the shell"
    of_rank = "one rank for each GPU" if plan.gpus else "the ranks, which connect through gloo because there is no GPU"
    yield Explained(TASKS, str(plan.tasks), starts if plan.command.once_per_node else of_rank)
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
    number = "%A_%a" if plan.array else "%j"
    yield Explained("output", f"slurm-%x-{number}.log", "all ranks, each line with its task")


def _of_time(plan: JobPlan, system: System) -> str:
    request, default = plan.request, system.qos("")
    if default and not request.qos:
        return f"the default QOS {default.name} allows {default.limits}; select another with --option --qos=NAME"
    is_cut = not request.time and plan.time != system.scheduler.defaults.get("time")
    return f"the longest time limit of this {'QOS' if system.qos(request.qos) else 'partition'}" if is_cut else ""


def _gpus(plan: JobPlan) -> Iterator[Explained]:
    if not plan.gpus:
        return
    if not plan.one_gpu_per_rank:
        yield Explained("gpus-per-node", str(plan.ranks), "each rank sees all GPUs and uses device LOCAL_RANK")
        return
    closest = plan.binding.gpus if plan.binding else ""
    local = "and LOCAL_RANK is 0" if closest else "even if LOCAL_RANK is 1 or more"
    yield Explained("gpus-per-task", "1", f"each rank sees only its own GPU as device 0, {local}")
    if plan.binding and closest:
        yield Explained("gpu-bind", closest, plan.binding.reason)


def _of_system(plan: JobPlan, system: System) -> Iterator[Explained]:
    request = plan.request
    for name, value in system.scheduler.defaults.items():
        if name not in PLANNED:
            yield Explained(name, value)
    yield from system.jobs.options
    for setting in (*plan.settings, *plan.by_hook):
        if setting.needs:
            origin = ", set by the hook," if setting in plan.by_hook else ""
            reason = f"{setting.name}={setting.value}{origin} needs it"
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
        yield Explained("open-mode", "append", "a requeued run appends to the same file")


def _joined(directives: Iterable[Explained]) -> tuple[Explained, ...]:
    """Return each option once, with its last value. Only constraints are combined, with `&`."""
    joined: dict[str, Explained] = {}
    for option in directives:
        first = joined.setdefault(option.name, option)
        if first is not option:
            both = option.name == "constraint" and first.value != option.value
            value = f"{first.value}&{option.value}" if both else option.value
            reason = "; ".join(dict.fromkeys(filter(None, (first.reason, option.reason))))
            joined[option.name] = Explained(option.name, value, reason)
    return tuple(joined.values())

"""The requests of a job that exceed a limit of its partition or QOS. `job` rejects them, and `check` reports them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uenvtool.core.words import counted
from uenvtool.knowledge.jobs import Partition, minutes, time_text
from uenvtool.knowledge.system import System

PARTITION, QOS = "partition", "qos"
_NAMES = {PARTITION: "partition", QOS: "QOS"}
TIME, NODES, GPUS = "time", "nodes", "gpus"


@dataclass(frozen=True, kw_only=True, slots=True)
class Excess:
    """A request that exceeds a limit.

    kind: PARTITION or QOS, which has the limit. of: TIME, NODES or GPUS. says: the limit as a text. most: the largest
    allowed value, or "" for GPUs on nodes without GPUs. others: the partitions or QOS that accept the job.
    """

    kind: str
    of: str
    says: str
    most: str
    others: tuple[str, ...]


def limits_of(system: System, partition: str, qos: str) -> list[tuple[str, Partition]]:
    """Return the known limits of a job: those of its partition and of its QOS, each with its kind."""
    both = ((PARTITION, system.partition(partition)), (QOS, system.qos(qos)))
    return [(kind, limit) for kind, limit in both if limit]


def excesses(system: System, partition: str, qos: str, nodes: int, gpus: int, time: str) -> Iterator[Excess]:
    """Yield each request of a job that exceeds a limit of its partition or QOS.

    partition, qos: the names, or "" for the default. gpus: the number of GPUs on all nodes together. time: the time
    limit, or "". Raises ValueError if the time is not a time limit of sbatch.
    """
    requested = minutes(time) if time else 0
    for kind, limit in limits_of(system, partition, qos):
        known: Mapping[str, Partition] = system.jobs.qos if kind == QOS else system.jobs.partitions
        others = tuple(other.name for other in known.values() if other.accepts(nodes, gpus, requested))
        place = f"the {_NAMES[kind]} {limit.name} of {system.name}"
        for of, says, most in _over(limit, place, nodes, gpus, requested):
            yield Excess(kind=kind, of=of, says=f"{says} [{limit.source}]", most=most, others=others)


def _over(limit: Partition, place: str, nodes: int, gpus: int, requested: float) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of limit, the limit as a text, and the largest value for each request that exceeds a limit."""
    job = f"a job in {place}"
    if limit.gpus == 0 and gpus:
        yield GPUS, f"{place} has no GPUs", ""
    elif limit.gpus and gpus > limit.gpus:
        yield GPUS, f"{job} can have at most {counted(limit.gpus, 'GPU')}", str(limit.gpus)
    if limit.nodes and nodes > limit.nodes:
        yield NODES, f"{job} can have at most {counted(limit.nodes, 'node')}", str(limit.nodes)
    most = limit.minutes(nodes)
    if requested > most:
        on_nodes = f" on {counted(nodes, 'node')}" if limit.node_minutes or limit.bins else ""
        yield TIME, f"{job}{on_nodes} can run at most {time_text(most)}", time_text(most)

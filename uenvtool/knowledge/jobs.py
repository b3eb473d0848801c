"""What jobs need on a system, from the `jobs` of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.knowledge.reader import children, text
from uenvtool.knowledge.source import Node
from uenvtool.knowledge.system import System


@dataclass(frozen=True, slots=True)
class Explained:
    """A value and why it is so."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bind:
    """A path of the host, which may begin with a module's `${VARIABLE}`, and its place in the container."""

    host: str
    inside: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEngine:
    """What an EDF has.

    netstack: where the hooks take the network stack from, if the EDF does not say. extended: the part of an image's
    name that shows an image with its own network stack.
    """

    mounts: tuple[str, ...] = ()
    workdir: str = ""
    netstack: str = ""
    annotations: tuple[Explained, ...] = ()
    extended: re.Pattern[str] | None = None
    extended_annotations: tuple[Explained, ...] = ()
    extended_env: tuple[Explained, ...] = ()
    extended_srun: tuple[str, ...] = ()
    extended_network: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apptainer:
    """What a container takes from the host. image: of jobs that name none. modules: those that the job loads first.

    monitor: a program that logs the GPUs.
    """

    image: str = ""
    modules: tuple[str, ...] = ()
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    library_path: tuple[str, ...] = ()
    include_path: tuple[str, ...] = ()
    monitor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The most that a job may have in a partition, and why."""

    name: str
    nodes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """What a pod asks for: annotations, and resources with their count."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKnowledge:
    """Everything of a system that only its jobs need.

    large: the constraint of large runs, if there is one. partitions: those whose jobs are limited, by name.
    """

    required: tuple[str, ...] = ()
    large: Explained | None = None
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    ce: ContainerEngine
    apptainer: Apptainer
    pods: Pods


def job_knowledge(system: System) -> JobKnowledge:
    """What jobs need on a system; everything empty if its file says nothing of jobs."""
    jobs = system.tree.get("jobs")
    large = jobs.get("large") if jobs else None
    return JobKnowledge(
        required=_texts(jobs, "required"),
        large=Explained("constraint", text(large, "constraint"), text(large, "reason")) if large else None,
        partitions={
            name: Partition(name=name, nodes=int(text(child, "nodes")), reason=text(child, "reason"))
            for name, child in children(jobs, "partitions")
        },
        ce=_container_engine(jobs.get("ce") if jobs else None),
        apptainer=_apptainer(jobs.get("apptainer") if jobs else None),
        pods=_pods(jobs.get("runai") if jobs else None),
    )


def _container_engine(node: Node | None) -> ContainerEngine:
    extended = node.get("extended") if node else None
    return ContainerEngine(
        mounts=_texts(node, "mounts"),
        workdir=text(node, "workdir"),
        netstack=text(node, "netstack"),
        annotations=_explained(node, "annotations"),
        extended=re.compile(text(extended, "image")) if extended else None,
        extended_annotations=_explained(extended, "annotations"),
        extended_env=_explained(extended, "env"),
        extended_srun=_texts(extended, "srun"),
        extended_network=text(extended, "network"),
    )


def _apptainer(node: Node | None) -> Apptainer:
    binds = node.get("binds") if node else None
    return Apptainer(
        image=text(node, "image"),
        modules=_texts(node, "modules"),
        binds=tuple(
            Bind(text(child, "host"), text(child, "inside"), text(child, "reason"))
            for child in (binds.value if binds else ())
        ),
        env=_mapping(node, "env"),
        library_path=_texts(node, "library_path"),
        include_path=_texts(node, "include_path"),
        monitor=text(node, "monitor"),
    )


def _pods(node: Node | None) -> Pods:
    return Pods(annotations=_mapping(node, "annotations"), resources=_mapping(node, "resources"))


def _texts(node: Node | None, name: str) -> tuple[str, ...]:
    child = node.get(name) if node else None
    return tuple(str(item.value) for item in (child.value if child else ()))


def _mapping(node: Node | None, name: str) -> dict[str, str]:
    return {key: str(child.value) for key, child in children(node, name)}


def _explained(node: Node | None, name: str) -> tuple[Explained, ...]:
    return tuple(Explained(key, text(child, "value"), text(child, "reason")) for key, child in children(node, name))

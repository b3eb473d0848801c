"""What jobs need on a system: the `jobs` of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.knowledge.bind import Key
from uenvtool.knowledge.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Explained:
    """A value and why it is so."""

    name: Key
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A path of the host, which may begin with a module's `${VARIABLE}`, and its place in the container."""

    host: str
    inside: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Large:
    """What large runs ask for."""

    constraint: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """What images with their own network stack need. image: the part of an image's name that shows one."""

    image: Pattern
    annotations: tuple[Explained, ...] = ()
    env: tuple[Explained, ...] = ()
    srun: tuple[str, ...] = ()
    network: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEngine:
    """What an EDF has. netstack: where the hooks take the network stack from, if the EDF does not say."""

    mounts: tuple[str, ...] = ()
    workdir: str = ""
    netstack: str = ""
    annotations: tuple[Explained, ...] = ()
    extended: Extended | None = None


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

    name: Key
    nodes: int
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAI:
    """What a pod asks for: annotations, and resources with their count."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Everything of a system that only its jobs need.

    large: the constraint of large runs, if there is one. partitions: those whose jobs are limited, by name.
    """

    required: tuple[str, ...] = ()
    large: Large | None = None
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    ce: ContainerEngine = field(default_factory=ContainerEngine)
    apptainer: Apptainer = field(default_factory=Apptainer)
    runai: RunAI = field(default_factory=RunAI)

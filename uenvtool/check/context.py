"""A file that is checked, and what is worked out about it once for all rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from uenvtool.check import tuned
from uenvtool.check.launch import MANY, Launch, Shape, job_shape, launches, on_several_nodes, options
from uenvtool.check.launchers import program_name
from uenvtool.check.parts import CheckedFile, Part
from uenvtool.check.values import Values
from uenvtool.core.words import grouped
from uenvtool.knowledge.condition import Facts

_ARGUMENT = re.compile(r"[\w.-]+\.py")


@dataclass(eq=False)
class Context:
    """A file, and what is worked out about it once for all rules.

    knowledge: gives the tuning for it. facts: the version of Slurm, and whether a node runs one job. read: gives the
    text of a file that it names, or nothing. has_folder: tells if there is one. required: the options that jobs of
    the system need. images: the kinds of the images that steps run in, by their offsets. nodes: of the job of an EDF.
    """

    source: CheckedFile
    knowledge: tuned.Knowledge
    facts: Facts
    read: Callable[[str], str] = lambda _name: ""
    required: Sequence[str] = ()
    has_folder: Callable[[str], bool] = lambda _name: False
    images: Mapping[int, str | None] = field(default_factory=dict)
    nodes: int | None = None

    @functools.cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Return every program that computes."""
        return tuple(launches(self.source, self.values, self.shape))

    @functools.cached_property
    def values(self) -> Values:
        """Return the variables that have one value."""
        return Values(self.source)

    @functools.cached_property
    def shape(self) -> Shape:
        """Return what the job asks for."""
        return job_shape(self.source, self.values)

    @functools.cached_property
    def commands(self) -> tuple[Part, ...]:
        """Return the commands of the file and of its steps."""
        return tuple(self.source.of("command"))

    def parts(self, kind: str) -> Sequence[Part]:
        """Return the parts of a kind, see `knowledge/rule.py`."""
        return self._by_kind.get(kind, ())

    def facts_of(self, part: Part) -> Facts:
        """Return what the conditions of a rule can ask of a launch, or else of the job; None for what is not known."""
        launch = self._launch_at.get(part.offset)
        shape = launch.shape if launch else self.shape
        nodes, tasks, gpus = shape.nodes, shape.tasks, shape.gpus
        cores = shape.cores if "cpus-per-task" in shape.requested else tasks  # Slurm gives each task one
        ranks = launch.ranks if launch else None
        if "edf" in self.source.kinds:
            nodes = self.nodes
        numbers = {
            "nodes": nodes if launch is None or on_several_nodes(launch) else 1,
            "tasks": tasks,
            "gpus": gpus,
            "ranks": ranks,
            "without_gpu": max(ranks - gpus, 0) if gpus and ranks and ranks != MANY else None,
            "total": nodes * tasks if nodes and tasks else None,
            "cores_per_gpu": cores // gpus if gpus and cores else None,
            "tasks_apart": self._tasks_apart,
            "threads_over": self._threads_over(part),
        }
        return {
            **{name: None if number is None else str(number) for name, number in numbers.items()},
            "image": self.images.get(part.offset),
            "starter": launch.starter if launch else None,
            "started": "one rank for each GPU" if ranks == MANY else f"{ranks} ranks",
        }

    def _threads_over(self, part: Part) -> int | None:
        """By how much the threads of a node's ranks are more than its cores, if a variable says how many a rank has."""
        threads = self.values.number(part.text) if part.name.endswith("_NUM_THREADS") else None
        ranks, cores = self._most_ranks, self.shape.cores
        return max(threads * ranks - cores, 0) if threads and cores and ranks < MANY else None

    @functools.cached_property
    def _most_ranks(self) -> int:
        """The most ranks of a node that one launch starts."""
        return max((launch.of_node for launch in self.launches), default=0)

    @functools.cached_property
    def _tasks_apart(self) -> int | None:
        """How many tasks more --ntasks asks for than the nodes have by --ntasks-per-node."""
        shape = self.shape
        if not {"ntasks", "ntasks-per-node"} <= shape.requested.keys() or not shape.nodes or not shape.tasks:
            return None
        asked = self.values.number(shape.requested["ntasks"])
        return None if asked is None else asked - shape.nodes * shape.tasks

    @functools.cached_property
    def _launch_at(self) -> Mapping[int, Launch]:
        of_steps = {launch.step.offset: launch for launch in reversed(self.launches) if launch.step}
        return {**of_steps, **{launch.part.offset: launch for launch in self.launches}}

    @functools.cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Part]]:
        steps = {launch.step.offset: launch.step for launch in self.launches if launch.step}
        own = [(step, options(step.words[1:])[0]) for step in steps.values()]
        parts = [
            *self.source.parts,
            *(
                replace(launch.part, kind="launch", name=launch.program, text=" ".join(launch.words))
                for launch in self.launches
            ),
            *(
                replace(step, kind="step", text=" ".join(f"--{name}={value}" for name, value in found.items()))
                for step, found in own
            ),
        ]
        return grouped((part.kind, part) for part in parts)

    def program(self, launch: Launch) -> tuple[str, str]:
        """Return the Python file that a launch starts, and its text where it is at hand."""
        name = next((word for word in launch.words[1:] if _ARGUMENT.fullmatch(program_name(word))), "")
        return name, self.read(name) if name else ""

    def mentions(self, *words: str) -> bool:
        """Tell if one of the words stands in the file, outside comments."""
        return any(word in part.text for part in self.source.of("line") for word in words)

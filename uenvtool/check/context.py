"""The file being checked, with the properties that all rules share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.check.launch import MANY, Launch, Shape, job_shape, launches, on_several_nodes, step_shape
from uenvtool.check.launchers import PYTHON, SRUN, STARTERS, TRAINING, program_name
from uenvtool.check.parts import CheckedFile, Part
from uenvtool.check.sbatch import options
from uenvtool.check.values import Values
from uenvtool.core.words import grouped
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.system import System

_FEW_PARTS = 200
"""With fewer parts, searching each part is faster than compiling a pattern that searches all parts at once."""
_ARGUMENT = re.compile(r"[\w.-]+\.py")


@dataclass(eq=False)
class Context:
    """A file being checked, with properties that are computed once for all rules.

    load_settings: a function that returns the recommended settings, or None if the file does not show its runtime.
    facts: the Slurm version, and whether each node runs only one job.
    read: a function that returns the text of a file named in the script, or an empty string.
    system: the given system, or None.
    recipe: the recipe of the uenv that the script uses, or None if it is unknown.
    has_directory: a function that returns whether a directory exists.
    images: the kind of the image in which each step runs, by the offset of the step.
    nodes: for an EDF, the number of nodes of the job that uses it.
    """

    source: CheckedFile
    load_settings: Callable[[], Settings | None]
    facts: Facts
    read: Callable[[str], str]
    system: System | None
    recipe: Recipe | None
    has_directory: Callable[[str], bool]
    images: Mapping[int, str | None]
    nodes: int | None

    @functools.cached_property
    def settings(self) -> Settings | None:
        return self.load_settings()

    @functools.cached_property
    def _launches(self) -> Mapping[str, Sequence[Launch]]:
        return grouped((launch.role, launch) for launch in launches(self.source, self.values, self.shape))

    @property
    def launches(self) -> Sequence[Launch]:
        """The launches of training programs."""
        return self.launches_of(TRAINING)

    def launches_of(self, role: str) -> Sequence[Launch]:
        return self._launches.get(role, ())

    @functools.cached_property
    def values(self) -> Values:
        return Values(self.source.of("variable"))

    @functools.cached_property
    def shape(self) -> Shape:
        """The resources that the job requests."""
        return job_shape(self.source, self.values)

    @functools.cached_property
    def commands(self) -> tuple[Part, ...]:
        """The commands in the file and inside its steps."""
        return tuple(self.source.of("command"))

    def parts(self, kind: str) -> Sequence[Part]:
        """Return the parts of one kind (see KINDS in `knowledge/rule.py`)."""
        return self._by_kind.get(kind, ())

    def named(self, kind: str, name: Pattern) -> Sequence[Part]:
        """Return the parts of one kind whose name matches."""
        if name.text == ".*":
            return self.parts(kind)
        if self._may_match(name, f"{kind} names", lambda: self._names.get(kind, ())):
            names = {each for each in self._names.get(kind, ()) if name.fullmatch(each)}
            return [part for part in self.parts(kind) if part.name in names] if names else ()
        return ()

    def may_match(self, kind: str, text: Pattern | None, raw: Pattern | None) -> bool:
        """Return False if `text` matches no part of this kind, or if `raw` matches no part as written in the file."""
        parts, whole = self.parts(kind), self.source.text
        return (text is None or self._may_match(text, kind, lambda: (part.text for part in parts))) and (
            raw is None
            or self._may_match(raw, f"{kind} raw", lambda: (whole[part.offset : part.end] for part in parts))
        )

    def _may_match(self, pattern: Pattern, key: str, texts: Callable[[], Iterable[str]]) -> bool:
        """Return whether a pattern may match one of the texts. Searching all texts at once is faster."""
        if len(self.parts(key.partition(" ")[0])) < _FEW_PARTS:
            return True
        if key not in self._joined:
            self._joined[key] = "\n".join(texts())
        return pattern.may_match_line(self._joined[key])

    @functools.cached_property
    def _joined(self) -> dict[str, str]:
        return {}

    def facts_of(self, part: Part) -> Facts:
        """Return the facts for a rule's conditions: `facts`, and the numbers of a part's launch, step or job."""
        launch = self._launch_at.get(part.offset)
        step = None if launch else self._step_of(part)
        shape = launch.shape if launch else step_shape(step, self.shape, self.values) if step else self.shape
        ranks = launch.ranks if launch else None
        if launch is not None and launch.program == PYTHON and launch.starter == SRUN:
            ranks = launch.ranks_per_node or None
        starter = launch.starter if launch else step.name.removeprefix("| ") if step else None
        is_on_one = launch is not None and not on_several_nodes(launch)
        awaited = launch.nodes if launch is not None and launch.starter == SRUN else None
        image = self.images.get(part.offset)
        return self._facts(shape, ranks, starter, is_on_one, awaited, self._threads_over(part), image)

    @functools.cached_property
    def _facts(self) -> Callable[..., Facts]:
        return functools.cache(self._facts_of_shape)

    def _facts_of_shape(
        self,
        shape: Shape,
        ranks: int | None,
        starter: str | None,
        is_on_one: bool,
        awaited: int | None,
        threads: int | None,
        image: str | None,
    ) -> Facts:
        nodes, tasks, gpus = shape.nodes, shape.tasks, shape.gpus
        cores = shape.cores if "cpus-per-task" in shape.requested else tasks  # Slurm's default is one core per task
        nodes = self.nodes if "edf" in self.source.kinds else nodes
        total = self.values.number(shape.requested.get("ntasks", ""))
        numbers = {
            "nodes": 1 if is_on_one else nodes,
            "tasks": tasks,
            "gpus": gpus,
            "ranks": ranks,
            "without_gpu": max(ranks - gpus, 0) if gpus and ranks else None,
            "total": nodes * tasks if nodes and tasks else None,
            "cores_per_gpu": cores // gpus if gpus and cores else None,
            "tasks_apart": self._excess_tasks,
            "threads_over": threads,
            "nodes_missing": max(awaited - nodes * (tasks or 1), 0) if awaited and nodes else None,
            "nodes_idle": max(nodes - total, 0) if nodes and total else None,
            "gpus_missing": self._gpus_missing,
        }
        return {
            **self.facts,
            **{name: None if number is None else str(number) for name, number in numbers.items()},
            "image": image,
            "starter": starter,
        }

    def _step_of(self, part: Part) -> Part | None:
        """Return the command that starts a part on the nodes, such as srun, or None if the batch script starts it."""
        step = part if part.kind == "command" else self._command_at.get(part.step)
        while step is not None and step.name.removeprefix("| ") not in STARTERS:
            step = self._command_at.get(step.step)
        return step

    @functools.cached_property
    def _command_at(self) -> Mapping[int, Part]:
        return {part.offset: part for part in self.commands}

    def _threads_over(self, part: Part) -> int | None:
        """Return the number of threads on a node that exceed its cores, if the part sets the threads per rank."""
        threads = self.values.number(part.text) if part.name.endswith("_NUM_THREADS") else None
        ranks, cores = self._max_ranks_per_node, self.shape.cores
        return max(threads * ranks - cores, 0) if threads and cores and ranks < MANY else None

    @functools.cached_property
    def _max_ranks_per_node(self) -> int:
        return max((launch.ranks_per_node for launch in self.launches), default=0)

    @functools.cached_property
    def _gpus_missing(self) -> int | None:
        """Return the number of GPUs that the nodes or tasks of the job need in addition to --gpus."""
        names = ("gpus", "nodes", "ntasks", "ntasks-per-node", "gpus-per-task", "gpus-per-node")
        texts = (self.shape.requested.get(name, "").rpartition(":")[2] for name in names)
        gpus, nodes, tasks, per_node, of_task, of_node = (self.values.number(text) or 0 for text in texts)
        needed = max((tasks or nodes * per_node) * of_task, nodes * of_node)
        return max(needed - gpus, 0) if gpus and needed else None

    @functools.cached_property
    def _excess_tasks(self) -> int | None:
        """Return --ntasks minus the number of tasks that --nodes and --ntasks-per-node request."""
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
    def _names(self) -> Mapping[str, Collection[str]]:
        return {kind: {part.name for part in parts} for kind, parts in self._by_kind.items()}

    @functools.cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Part]]:
        parts = list(self.source.parts)
        for launch in self.launches:
            parts.append(launch.part.as_kind("launch", launch.program, " ".join(launch.argv)))
        for step in {launch.step.offset: launch.step for launch in self.launches if launch.step}.values():
            text = " ".join(f"--{name}={value}" for name, value in options(step.argv[1:])[0].items())
            parts.append(step.as_kind("step", step.name, text))
        return grouped((part.kind, part) for part in parts)

    def program(self, launch: Launch) -> tuple[str, str]:
        """Return the name of the Python file that a launch starts, and its text (empty if it cannot be read)."""
        name = next((word for word in launch.argv if _ARGUMENT.fullmatch(program_name(word))), "")
        return name, self.read(name) if name else ""

    def mentions(self, *texts: str) -> bool:
        """Return whether the file contains one of the texts outside comments."""
        if texts not in self._mentioned:
            self._mentioned[texts] = any(text in part.text for part in self.parts("line") for text in texts)
        return self._mentioned[texts]

    @functools.cached_property
    def _mentioned(self) -> dict[tuple[str, ...], bool]:
        return {}

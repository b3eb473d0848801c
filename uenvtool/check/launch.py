"""The resources that a batch script requests from Slurm, and the training programs that it starts with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.check.launchers import (
    MPIRUN,
    NOT_IN_SRUN,
    PYTHON,
    SRUN,
    STARTER,
    STARTERS,
    TORCHRUN,
    has_unknown,
    launchers,
    option,
    program_name,
    programs,
    spelled,
)
from uenvtool.check.parts import CheckedFile, Part
from uenvtool.check.sbatch import options
from uenvtool.check.script import OPTION_C, SHELLS
from uenvtool.check.values import Values
from uenvtool.knowledge.launcher import all_launchers

ACCELERATE, DEEPSPEED, MPI = "accelerate", "deepspeed", "mpirun"
_LEADING = 4
"""How many leading words may contain srun, which can follow `time -p`, `timeout 3500`, a function or a variable."""
MANY = 1_000_000
"""The number of ranks per node if the launcher starts one per GPU and the number of GPUs is unknown."""
_NODES = frozenset(("nnodes", "num_machines", "num-nodes"))
"""The node-count options of the launchers that assume one node by default."""
_NO_LAUNCH = re.compile(
    r"echo|printf|cat|grep|pip3?|which|ls|cp|mv|sed|awk|tee|p?kill|killall|pgrep|export|sbatch|find|test|\[\[?|ssh|pdsh|clush"
    r"|parallel-ssh|scp|rsync|module|ml|source|\.|alias|type|command|unset|declare|readonly|local"
)
"""Commands whose arguments may name a launcher that they do not start on this node."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shape:
    """The resources of a job or step. An unknown number is None.

    tasks, gpus, cores: the number per node.
    requested: the options of the job or step, by long name.
    """

    nodes: int | None
    tasks: int | None
    gpus: int | None
    gpus_per_task: int | None
    cores: int | None
    requested: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """A program that matters and the command that starts it.

    role: TRAINING, ALONE, SERVER or STARTER, as `launchers.programs` describes them.
    argv: the program's name and its arguments.
    step: the srun command, or the container command in the batch script.
    starter: the program that starts the training on the nodes, such as srun, or None if the batch script starts it.
    shape: the resources of the step.
    ranks: the number of ranks that each call of the launcher starts.
    nodes: the number of nodes that the launcher waits for.
    is_prepared: whether the step's shell evaluates code that can set the launcher's variables.
    """

    part: Part
    role: str
    program: str
    argv: tuple[str, ...]
    step: Part | None
    starter: str | None
    shape: Shape
    ranks: int | None
    nodes: int | None
    is_prepared: bool

    @property
    def ranks_per_node(self) -> int:
        """Return the number of ranks per node, or 0 if it is unknown."""
        return (self.ranks or 0) * ((self.shape.tasks or 0) if self.starter else 1)


def on_several_nodes(launch: Launch) -> bool:
    """Return whether a program is started on several nodes."""
    return launch.starter is not None and (launch.shape.nodes or 1) > 1 and launch.shape.requested.get("ntasks") != "1"


def job_shape(source: CheckedFile, values: Values) -> Shape:
    """Return the resources that the #SBATCH lines request, and record them as values of Slurm's variables."""
    requested = {part.name: part.text for part in source.of("directive")}
    shape = _shape(requested, {}, values)
    values.known.update(
        {
            "SLURM_NNODES": shape.nodes, "SLURM_JOB_NUM_NODES": shape.nodes,
            "SLURM_NTASKS_PER_NODE": values.number(requested.get("ntasks-per-node", "")) or shape.tasks,
            "SLURM_GPUS_PER_NODE": shape.gpus, "SLURM_GPUS_ON_NODE": shape.gpus,
            "SLURM_CPUS_PER_TASK": values.number(requested.get("cpus-per-task", "")),
        }
    )  # fmt: skip
    return shape


def step_shape(step: Part, job: Shape, values: Values) -> Shape:
    """Return the resources of the step that a command such as srun starts."""
    given, _ = options(values.expanded(step.argv)[1:]) if step.name.endswith(SRUN) else ({}, 0)
    return _shape(job.requested, given, values) if given else job


def _shape(requested: Mapping[str, str], step: Mapping[str, str], values: Values) -> Shape:
    both = {**requested, **step}
    nodes = values.number(both["nodes"].split("-")[0]) if "nodes" in both else None
    total = values.number(both["ntasks"]) if "ntasks" in both else None
    if "nodes" not in (step if "ntasks" in step else both) and (total == 1 or "ntasks" not in both):
        nodes = 1  # also in a job with several nodes, where srun warns that one task needs only one
    gpus = _gpus(both, nodes, values)
    share = values.number(both["gpus-per-task"].rpartition(":")[2]) if "gpus-per-task" in both else None
    per_node = values.number(both["ntasks-per-node"]) if "ntasks-per-node" in both else None
    if ("ntasks" in step and "ntasks-per-node" not in step) or "ntasks-per-node" not in both:
        if total is not None:
            per_node = 1 if total == 1 else total // nodes if nodes and total % nodes == 0 else None
        elif "ntasks" in both:
            per_node = None
        elif "ntasks-per-gpu" in both:
            of_gpu = values.number(both["ntasks-per-gpu"])
            per_node = gpus * of_gpu if gpus and of_gpu else None
        elif "ntasks-per-node" not in both:
            per_node = gpus // share if gpus and share and "gpus" in both else 1
            if share and not {"gpus", "nodes"} & both.keys():
                per_node = None  # sbatch needs a number of tasks here, so its command line gives the number
    elif total and nodes and per_node and "ntasks" in (step if "ntasks-per-node" in step else both):
        fits = nodes <= total < nodes * per_node  # --ntasks-per-node is then a maximum
        per_node = per_node if not fits else total // nodes if total % nodes == 0 else None
    if gpus is None and share and per_node:
        gpus = share * per_node
    share_of_cores = values.number(both.get("cpus-per-task", ""))
    cores = share_of_cores * per_node if share_of_cores and per_node else None
    return Shape(nodes=nodes, tasks=per_node, gpus=gpus, gpus_per_task=share, cores=cores, requested=both)


def _gpus(requested: Mapping[str, str], nodes: int | None, values: Values) -> int | None:
    """Return the GPUs per node from `--gres=gpu:a100:4`, `--gpus-per-node=4`, or `--gpus=8` with two nodes."""
    for name in ("gpus-per-node", "gres"):
        for entry in requested.get(name, "").split(","):
            if (name == "gpus-per-node" and entry) or entry.startswith("gpu"):
                number = entry.rpartition(":")[2]
                return 1 if number.isalpha() and name == "gres" else values.number(number)
    total = values.number(requested["gpus"].rpartition(":")[2]) if "gpus" in requested else None
    return total // nodes if total and nodes and total % nodes == 0 else None


def launches(source: CheckedFile, values: Values, job: Shape) -> Iterator[Launch]:
    """Yield the launch of each program in file order. job: the resources of the whole job."""
    commands = list(source.of("command"))
    steps = {part.offset: part for part in commands}
    shapes: dict[tuple[tuple[str, str], ...], Shape] = {(): job}

    def shape_of(given: Mapping[str, str]) -> Shape:
        key = tuple(given.items())
        if key not in shapes:
            shapes[key] = _shape(job.requested, given, values)
        return shapes[key]

    for part in commands:
        if _NO_LAUNCH.fullmatch(part.name.removeprefix("| ")):
            continue
        argv = values.expanded(part.argv)
        index = next((i for i, word in enumerate(argv[:_LEADING]) if program_name(word) in STARTERS), None)
        outer = steps.get(part.step)
        while outer is not None and outer.name not in STARTERS and outer.step in steps:
            outer = steps[outer.step]
        step, start = (outer, 0) if index is None else (part, index + 1)
        starter = program_name(argv[index]) if index is not None else outer.name if outer is not None else ""
        given: dict[str, str] = {}
        if starter == SRUN and step is not None:
            given, length = options(argv[start:] if step is part else values.expanded(step.argv)[1:])
            start += length if step is part else 0
        program_argv, is_prepared = _inside_shell(argv[start:])
        found = [(role, name, program_argv[i:], step, starter, given) for role, name, i in programs(program_argv)]
        if index is not None and starter in NOT_IN_SRUN:
            is_inside = outer is not None and outer.name == SRUN
            its_options = options(values.expanded(outer.argv)[1:])[0] if outer and is_inside else {}
            found.append((STARTER, starter, argv[index:], outer, SRUN if is_inside else "", its_options))
        for role, name, words, its_step, its_starter, its_options in found:
            shape = shape_of(its_options)
            yield Launch(
                part=part,
                role=role,
                program=name,
                argv=tuple(words),
                step=its_step,
                starter=its_starter if its_starter in STARTERS else None,
                shape=shape,
                ranks=_ranks(name, words, shape, values),
                nodes=_awaited_nodes(name, words, values),
                is_prepared=is_prepared,
            )


def _inside_shell(argv: Sequence[str]) -> tuple[Sequence[str], bool]:
    """Return the command that `sh -c SCRIPT NAME ARGUMENTS` runs, and whether code in a variable prepares it.

    The command is empty if SCRIPT does not run its arguments, because the commands in SCRIPT are separate parts.
    """
    for i, word in enumerate(argv):
        if word.endswith("sh") and program_name(word) in SHELLS:
            option_c = next((j for j in (i + 1, i + 2) if OPTION_C.fullmatch("".join(argv[j : j + 1]))), None)
            if option_c is not None:
                script, words = "".join(argv[option_c + 1 : option_c + 2]), argv[option_c + 2 :]
                is_prepared = _EVALUATES.search(script) is not None
                runs_name = is_prepared or _RUNS_NAME.search(script)
                return (words if runs_name else words[1:] if _RUNS_ARGUMENTS.search(script) else ()), is_prepared
    return argv, False


_EVALUATES = re.compile(r"\beval\s+\"?\$\{?\w")
_RUNS_NAME = re.compile(r"\$\{?0\b")
_RUNS_ARGUMENTS = re.compile(r"\$\{?[@*]")


def _ranks(program: str, argv: Sequence[str], shape: Shape, values: Values) -> int | None:
    if program == TORCHRUN:
        value = option(argv, "nproc_per_node")
        if value is None:
            return None if has_unknown(argv[1:]) else 1
        return shape.gpus or MANY if value in ("gpu", "auto") else values.number(value)
    if program == ACCELERATE:
        total = values.number(option(argv, "num_processes") or "")
        is_in_file = option(argv, "config_file") is not None
        machines = values.number(option(argv, "num_machines") or ("" if is_in_file else "1"))
        return total // machines if total and machines else None
    if program == DEEPSPEED:
        value = option(argv, "num_gpus")
        return values.number(value) if value else shape.gpus
    if program == PYTHON:
        return 1
    launcher = all_launchers()[MPI] if program in MPIRUN else launchers().get(program)
    ranks = option(argv, *map(spelled, launcher.ranks)) if launcher else None
    variables = launcher.variables.items() if launcher and ranks is None else ()
    return values.number(ranks or next((f"${name}" for name, value in variables if value == "@RANKS@"), ""))


def _awaited_nodes(program: str, argv: Sequence[str], values: Values) -> int | None:
    if any(word.lstrip("-").startswith("standalone") for word in argv):
        return 1
    value = option(argv, *_NODES, "num_nodes")
    if value:
        return values.number(value.split(":")[0])
    launcher = launchers().get(program)
    return 1 if program == PYTHON or (launcher and _NODES & launcher.options.keys()) else None

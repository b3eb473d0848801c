"""The resources that a batch script requests from Slurm, and the training programs that it starts with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.check.launchers import (
    PYTHON_NAME,
    SRUN,
    STARTERS,
    TORCHRUN,
    has_unknown,
    launchers,
    matched,
    of_one_node,
    option,
    program_name,
    python_target_index,
)
from uenvtool.check.parts import OUTER, CheckedFile, Part
from uenvtool.check.script import SHORT_OPTIONS
from uenvtool.check.values import Values

ACCELERATE, DEEPSPEED, PYTHON = "accelerate", "deepspeed", "python"
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
_SRUN_FLAGS = re.compile(
    r"label|unbuffered|exact|overlap|pty|verbose|quiet|no-kill|overcommit|disable-status|preserve-env|multi-prog|spread-job"
    r"|oversubscribe|exclusive|kill-on-bad-exit|contiguous|hold|use-min-nodes|het-group-all|container-writable"
    r"|(no-)?container-(mount-home|entrypoint|remap-root)"
)
"""The options of srun and its container plugin that take no value (srun(1), pyxis)."""


@dataclass(frozen=True, kw_only=True, slots=True)
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
    """A training program and the command that starts it.

    argv: the program's name and its arguments.
    step: the srun command, or the container command in the batch script.
    starter: the program that starts the training on the nodes, such as srun, or None if the batch script starts it.
    shape: the resources of the step.
    ranks: the number of ranks that each call of the launcher starts.
    nodes: the number of nodes that the launcher waits for.
    """

    part: Part
    program: str
    argv: tuple[str, ...]
    step: Part | None
    starter: str | None
    shape: Shape
    ranks: int | None
    nodes: int | None

    @property
    def ranks_per_node(self) -> int:
        """Return the number of ranks per node, or 0 if it is unknown."""
        return (self.ranks or 0) * ((self.shape.tasks or 0) if self.starter else 1)


def on_several_nodes(launch: Launch) -> bool:
    """Return whether a program is started on several nodes."""
    return launch.starter is not None and (launch.shape.nodes or 1) > 1 and launch.shape.requested.get("ntasks") != "1"


def options(argv: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the leading srun options by long name, and the index of the program that srun runs."""
    given_options: dict[str, str] = {}
    i = 0
    while i < len(argv):
        word = argv[i]
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            if not has_value and not _SRUN_FLAGS.fullmatch(name) and i + 1 < len(argv):
                i += 1
                value = argv[i]
            given_options[name] = value
        elif re.match(r"-[A-Za-z]", word):
            name, value = SHORT_OPTIONS.get(word[1], word[1]), word[2:].removeprefix("=")
            if not value and word[1] not in "luvQkKOsXHEIZb" and i + 1 < len(argv):
                i += 1
                value = argv[i]
            given_options[name] = value
        elif not re.match(rf"[${OUTER}]", word):
            break
        i += 1
    return given_options, i


def job_shape(source: CheckedFile, values: Values) -> Shape:
    """Return the resources that the #SBATCH lines request, and record them as values of Slurm's variables."""
    requested = {part.name: part.text for part in source.of("directive")}
    shape = _shape(requested, {}, values)
    values.known.update(
        {
            "SLURM_NNODES": shape.nodes, "SLURM_JOB_NUM_NODES": shape.nodes, "SLURM_NTASKS_PER_NODE": shape.tasks,
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
        elif "ntasks-per-node" not in both:
            per_node = gpus // share if gpus and share and "ntasks-per-gpu" not in both and "gpus" in both else 1
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


Find = Callable[[Sequence[str]], tuple[str, int] | None]
"""A function that returns the program in the words of a command and its index, or None."""


def servers(source: CheckedFile, values: Values, job: Shape) -> Iterator[Launch]:
    """Yield the launch of each server, and of each launcher that supports only one node, as `launches` does."""
    yield from launches(source, values, job, _server)


def _server(argv: Sequence[str]) -> tuple[str, int] | None:
    program, _, index = of_one_node(argv)
    return (program, index) if program else None


def launches(source: CheckedFile, values: Values, job: Shape, find: Find | None = None) -> Iterator[Launch]:
    """Yield the launch of each program in file order.

    job: the resources of the whole job. find: finds the programs; by default, it finds the training programs.
    """
    commands = list(source.of("command"))
    steps = {part.offset: part for part in commands}
    for part in commands:
        if _NO_LAUNCH.fullmatch(part.name.removeprefix("| ")):
            continue
        argv = values.expanded(part.argv)
        index = next((i for i, word in enumerate(argv[:_LEADING]) if program_name(word) in STARTERS), None)
        step = part if index is not None else steps.get(part.step)
        while step is not None and step.name not in STARTERS and step.step in steps:
            step = steps[step.step]
        name = program_name(argv[index]) if index is not None else step.name if step is not None else ""
        step_options: dict[str, str] = {}
        start = 0
        if index is not None and name == SRUN:
            step_options, length = options(argv[index + 1 :])
            start = index + 1 + length
        program_argv = argv[start:]
        program_at = (find or _program)(program_argv)
        if program_at is None or _starts_script(program_argv):
            continue
        program, offset = program_at
        program_argv = program_argv[offset:]
        if step is not None and step is not part:
            step_options, _ = options(values.expanded(step.argv)[1:]) if step.name == SRUN else ({}, 0)
        shape = _shape(job.requested, step_options, values) if step_options else job
        yield Launch(
            part=part,
            program=program,
            argv=program_argv,
            step=step,
            starter=name if name in STARTERS else None,
            shape=shape,
            ranks=_ranks(program, program_argv, shape, values),
            nodes=_awaited_nodes(program, program_argv, values),
        )


def _starts_script(argv: Sequence[str]) -> bool:
    """Return whether a command runs `bash -c SCRIPT`, whose commands are separate parts."""
    return any(
        program_name(shell) in ("bash", "sh") and any(re.fullmatch(r"-[a-z]*c", word) for word in argv[i : i + 2])
        for i, shell in enumerate(argv, start=1)
    )


def _program(argv: Sequence[str]) -> tuple[str, int] | None:
    for i, word in enumerate(argv):
        launcher, _ = matched(argv[i:])
        if launcher:
            return launcher, i
        if PYTHON_NAME.fullmatch(program_name(word)):
            rest = argv[i + python_target_index(argv[i:]) :]
            return (PYTHON, i) if rest and re.match(rf"-\w*m$|[${OUTER}]|.*\.py$", rest[0]) else None
    return None


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
    launcher = launchers().get(program)
    return values.number(option(argv, *launcher.ranks) or "") if launcher else None


def _awaited_nodes(program: str, argv: Sequence[str], values: Values) -> int | None:
    if any(word.lstrip("-").startswith("standalone") for word in argv):
        return 1
    value = option(argv, *_NODES, "num_nodes")
    if value:
        return values.number(value.split(":")[0])
    launcher = launchers().get(program)
    return 1 if program == PYTHON or (launcher and _NODES & launcher.options.keys()) else None

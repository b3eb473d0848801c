"""What a batch script asks Slurm for, and the programs that it starts with it: nodes, tasks and GPUs of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.check.launchers import (
    PYTHON_NAME,
    SRUN,
    STARTERS,
    TORCHRUN,
    behind_python,
    has_unknown,
    launcher_of,
    launchers,
    option,
    program_name,
)
from uenvtool.check.parts import OUTER, CheckedFile, Part
from uenvtool.check.script import SHORT_OPTIONS
from uenvtool.check.values import Values

ACCELERATE, DEEPSPEED, PYTHON = "accelerate", "deepspeed", "python"
_LEADING = 4
"""srun stands among so many words of a command: behind `time -p`, `timeout 3500`, a function, or a variable."""
MANY = 1_000_000
"""More GPUs of a node than any: a number that is not known, and not one."""
_NODES = frozenset(("nnodes", "num_machines", "num-nodes"))
"""The options of those launchers that wait for one node where they are not told how many."""
_NO_LAUNCH = re.compile(
    r"echo|printf|cat|grep|pip3?|which|ls|cp|mv|sed|awk|tee|p?kill|killall|pgrep|export|sbatch|find|test|\[\[?|ssh|pdsh|clush"
    r"|parallel-ssh|scp|rsync|module|ml|source|\.|alias|type|command|unset|declare|readonly|local"
)
"""Commands whose words may name a launcher that they do not start on this node."""
_SRUN_FLAGS = re.compile(
    r"label|unbuffered|exact|overlap|pty|verbose|quiet|no-kill|overcommit|disable-status|preserve-env|multi-prog|spread-job"
    r"|oversubscribe|exclusive|kill-on-bad-exit|contiguous|hold|use-min-nodes|het-group-all|container-writable"
    r"|(no-)?container-(mount-home|entrypoint|remap-root)"
)
"""Options of srun and its container plugin that have no value in the next word (srun(1), pyxis)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a job or a step gets; None: not known. gpus, tasks, cores: of a node. requested: the options it names."""

    nodes: int | None
    tasks: int | None
    gpus: int | None
    gpus_per_task: int | None
    cores: int | None
    requested: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """A program that computes, with what starts it.

    words: from the program's name on. step: the command with its srun, or with the container that the batch script
    runs. starter: srun, or whatever else starts it on the nodes; None if that is the batch script. ranks: that the
    launcher starts on a node. nodes: that it is told to wait for. shape: of its step.
    """

    part: Part
    program: str
    words: tuple[str, ...]
    step: Part | None
    starter: str | None
    shape: Shape
    ranks: int | None
    nodes: int | None

    @property
    def of_node(self) -> int:
        """Return the ranks of a node; 0 where they are not known."""
        return (self.ranks or 0) * ((self.shape.tasks or 0) if self.starter else 1)


def on_several_nodes(launch: Launch) -> bool:
    """Tell if what starts a program starts it on several nodes."""
    return launch.starter is not None and (launch.shape.nodes or 1) > 1 and launch.shape.requested.get("ntasks") != "1"


def options(words: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the options of srun at the start of its words, by their long names, and the index of what it runs."""
    found: dict[str, str] = {}
    i = 0
    while i < len(words):
        word = words[i]
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            if not given and not _SRUN_FLAGS.fullmatch(name) and i + 1 < len(words):
                i += 1
                value = words[i]
            found[name] = value
        elif re.match(r"-[A-Za-z]", word):
            name, value = SHORT_OPTIONS.get(word[1], word[1]), word[2:].removeprefix("=")
            if not value and word[1] not in "luvQkKOsXHEIZb" and i + 1 < len(words):
                i += 1
                value = words[i]
            found[name] = value
        elif not re.match(rf"[${OUTER}]", word):
            break
        i += 1
    return found, i


def job_shape(source: CheckedFile, values: Values) -> Shape:
    """Return what the #SBATCH lines ask for."""
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


def _shape(requested: Mapping[str, str], step: Mapping[str, str], values: Values) -> Shape:
    """Return what the options of a job and those of its step, which come first, ask for."""
    both = {**requested, **step}
    nodes = values.number(both["nodes"].split("-")[0]) if "nodes" in both else None
    total = values.number(both["ntasks"]) if "ntasks" in both else None
    if "nodes" not in both and (total == 1 or "ntasks" not in both):
        nodes = 1
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
    cores = values.number(both.get("cpus-per-task", ""))
    return Shape(
        nodes=nodes,
        tasks=per_node,
        gpus=gpus,
        gpus_per_task=share,
        cores=cores * per_node if cores and per_node else None,
        requested=both,
    )


def _gpus(requested: Mapping[str, str], nodes: int | None, values: Values) -> int | None:
    """Return the GPUs of a node: of `--gres=gpu:a100:4`, `--gpus-per-node=4`, or `--gpus=8` of two nodes."""
    for name in ("gpus-per-node", "gres"):
        for entry in requested.get(name, "").split(","):
            if (name == "gpus-per-node" and entry) or entry.startswith("gpu"):
                number = entry.rpartition(":")[2]
                return 1 if number.isalpha() and name == "gres" else values.number(number)
    total = values.number(requested["gpus"].rpartition(":")[2]) if "gpus" in requested else None
    return total // nodes if total and nodes and total % nodes == 0 else None


def launches(source: CheckedFile, values: Values, job: Shape) -> Iterator[Launch]:
    """Yield every program that computes, in the order of the file. job: what the #SBATCH lines ask for."""
    commands = list(source.of("command"))
    steps = {part.offset: part for part in commands}
    for part in commands:
        if _NO_LAUNCH.fullmatch(part.name.removeprefix("| ")):
            continue
        words = values.expanded(part.words)
        index = next((i for i, word in enumerate(words[:_LEADING]) if program_name(word) in STARTERS), None)
        step = part if index is not None else steps.get(part.step)
        while step is not None and step.name not in STARTERS and step.step in steps:
            step = steps[step.step]
        name = program_name(words[index]) if index is not None else step.name if step is not None else ""
        own: dict[str, str] = {}
        behind = -1
        if index is not None and name == SRUN:
            own, behind = options(words[index + 1 :])
            behind += index
        run = words[behind + 1 :]
        found = _program(run)
        if found is None or _starts_script(run):
            continue
        program, start = found
        run = run[start:]
        if step is not None and step is not part:
            own, _ = options(values.expanded(step.words)[1:]) if step.name == SRUN else ({}, 0)
        shape = _shape(job.requested, own, values) if own else job
        yield Launch(
            part=part,
            program=program,
            words=run,
            step=step,
            starter=name if name in STARTERS else None,
            shape=shape,
            ranks=_ranks(program, run, shape, values),
            nodes=_told_nodes(program, run, values),
        )


def _starts_script(words: Sequence[str]) -> bool:
    """Tell if a shell with a script in a word is among the words: the script's commands are parts of their own."""
    return any(
        program_name(shell) in ("bash", "sh") and any(re.fullmatch(r"-[a-z]*c", word) for word in words[i : i + 2])
        for i, shell in enumerate(words, start=1)
    )


def _program(words: Sequence[str]) -> tuple[str, int] | None:
    for i, word in enumerate(words):
        is_python = PYTHON_NAME.fullmatch(program_name(word))
        launcher = launcher_of(words[i:])
        if launcher:
            return launcher, i
        if is_python:
            rest = words[i + behind_python(words[i:]) :]
            return (PYTHON, i) if rest and re.match(rf"-\w*m$|[${OUTER}]|.*\.py$", rest[0]) else None
    return None


def _ranks(program: str, words: Sequence[str], shape: Shape, values: Values) -> int | None:
    if program == TORCHRUN:
        value = option(words, "nproc_per_node")
        if value is None:
            return None if has_unknown(words[1:]) else 1
        return shape.gpus or MANY if value in ("gpu", "auto") else values.number(value)
    if program == ACCELERATE:
        total = values.number(option(words, "num_processes") or "")
        is_in_file = option(words, "config_file") is not None
        machines = values.number(option(words, "num_machines") or ("" if is_in_file else "1"))
        return total // machines if total and machines else None
    if program == DEEPSPEED:
        value = option(words, "num_gpus")
        return values.number(value) if value else shape.gpus
    if program != PYTHON:
        value = option(words, *launchers()[program].ranks)
        return values.number(value) if value else None
    return 1


def _told_nodes(program: str, words: Sequence[str], values: Values) -> int | None:
    if any(word.lstrip("-").startswith("standalone") for word in words):
        return 1
    value = option(words, *_NODES, "num_nodes")
    if value:
        return values.number(value.split(":")[0])
    return 1 if program == PYTHON or _NODES & launchers()[program].options.keys() else None

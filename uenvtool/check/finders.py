"""The finders: searches in Python for rules that a pattern in YAML cannot express.

A rule needs a finder if it reports a missing line, compares several commands or lines, computes a number, or reads the
training program, the file system or another YAML file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.check import directives, exits, tuned, variables
from uenvtool.check.context import Context
from uenvtool.check.launch import MANY, Launch, Shape, on_several_nodes
from uenvtool.check.launchers import (
    ALONE,
    OF_RANK,
    PYTHON,
    PYTHON_NAME,
    SERVER,
    SRUN,
    STARTER,
    STARTERS,
    TORCHRUN,
    has_unknown,
    isolation_reason,
    launchers,
    program_name,
    python_target_index,
    spelled,
)
from uenvtool.check.launchers import option as option_of
from uenvtool.check.parts import OUTER, STEP, Hit, at, fork
from uenvtool.check.program import read_program
from uenvtool.core.words import counted
from uenvtool.knowledge.secrets import tokens

_TAKES_LOCAL_RANK = re.compile(
    r"set_device\([^)\n]*local_?rank|Trainer\([^)]*devices=[2-9]|initialize_distributed_from_config|deepspeed\.init",
    re.IGNORECASE,
)
_LOCAL_RANKS = re.compile(r"\blocal_?rank[ \t]*=[ \t]*(\w+)", re.IGNORECASE)
"""An assignment to the local rank. The last assignment applies, and 0 is correct if the program sees only one GPU."""
_USES_ALL_GPUS = re.compile(
    r"DataParallel\(|device_map|vllm|tensor_parallel|jax|tensorflow|mp\.spawn|\bray\b|multiprocessing|Accelerator\(|devices="
)
_DIVIDES = re.compile(r"\bray\s|XLA_|JAX_")
"""Signs in a script that its program divides its work among the GPUs. Another sign is a list of visible GPUs."""


def _first_node_only(context: Context) -> Iterator[Hit]:
    steps = list(context.source.of("command", *STARTERS))
    reaches_others = any(_REACHES_OTHERS.search(line.text) for line in context.parts("line"))
    for launch in context.launches:
        several = (context.shape.nodes or 1) > 1
        if launch.starter or launch.program == PYTHON or not several or "slurm" not in context.source.kinds:
            continue
        if reaches_others or option_of(launch.argv, "hostfile", "host"):
            continue
        if any(fork(launch.part, step) for step in steps):  # another branch handles several nodes
            continue
        waits = " and waits there for the others" if (launch.nodes or 1) > 1 else ""
        yield at(
            launch.part,
            f"{launch.program} runs only on the first of {context.shape.nodes} nodes{waits}",
            f"srun --ntasks-per-node=1 {launch.program} ...; without srun, nothing starts it on the other nodes",
        )


_REACHES_OTHERS = re.compile(r"hostfile|(?:^|[^\w-])(?:ssh|pdsh|clush|(?:parallel-|p)ssh|parallel)\s")


def node_alone(context: Context) -> Iterator[Hit]:
    """Yield launchers on several nodes that do not get the address of the other nodes."""
    yield from _first_node_only(context)
    for launch in context.launches:
        begin = python_target_index(launch.argv) + 2 if PYTHON_NAME.match(program_name(launch.argv[0])) else 1
        ends = (i for i, word in enumerate(launch.argv) if i >= begin and (word.endswith(".py") or word == "-m"))
        arguments = launch.argv[begin : next(ends, None)]
        is_one = launch.program != PYTHON and (launch.shape.tasks or 1) == 1  # launcher-in-launcher reports more tasks
        if (
            launch.is_prepared
            or not is_one
            or not (on_several_nodes(launch) or _has_unknown_nodes(launch))
            or has_unknown(arguments)
            or option_of(arguments, "config_file")
        ):
            continue
        launcher = launchers()[launch.program]
        if launcher.environment and context.mentions(launcher.environment):
            continue
        reason = isolation_reason(launcher, arguments)
        if not reason and launch.part.scope == STEP:
            match = _DIFFERS_PER_NODE.search(context.source.text, launch.part.offset, launch.part.end)
            reason = f"{match[1] or match[2]} has a different value on each node" if match else ""
        if reason:
            yield at(launch.part, reason)


def _has_unknown_nodes(launch: Launch) -> bool:
    """Return whether a variable is the number of nodes of a step, and also the number that its launcher waits for."""
    is_unknown = launch.shape.nodes is None and launch.nodes is None
    return is_unknown and launch.starter is not None and "$" in (option_of(launch.argv, "nnodes") or "")


_DIFFERS_PER_NODE = re.compile(
    r"--(?:(?:rdzv[_-]endpoint|master[_-]addr|main_process_ip)[= ]\"?"
    r"(\$\(hostname\)|`hostname`|\$HOSTNAME|\$SLURMD_NODENAME)|rdzv[_-]id[= ]\"?\\?(\$RANDOM))"
)


def idle_gpus(context: Context) -> Iterator[Hit]:
    """Yield launches with fewer ranks than GPUs on a node.

    The problem is a hint if the program cannot be read, because the program may start more processes itself.
    """
    wrapped = {launch.part.offset for launch in context.launches_of(ALONE)}
    visible = {part.text for part in context.source.of("variable", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")}
    divides = any("," in gpus for gpus in visible)
    divides |= any(_DIVIDES.search(part.text) for part in context.parts("line"))
    for launch in context.launches:
        gpus, ranks = launch.shape.gpus or 0, launch.ranks_per_node
        has_known_ranks = launch.starter in (None, SRUN) or launch.program != PYTHON
        has_known_ranks &= launch.part.offset not in wrapped  # oumi gives torchrun the number of its ranks
        if not ranks or not has_known_ranks or launch.part.background or not ranks < gpus:
            continue
        line = " ".join(launch.argv)
        if _USES_ALL_GPUS.search(line) or re.search(r"(tp|gpu|parallel|devices|world|strategy|\bmp\b)", line):
            continue
        _, text = context.program(launch)
        is_only = len(context.launches) == 1
        sees_one = is_only and len(visible) == 1 and next(iter(visible)).isdecimal()
        is_certain = ranks == 1 and (launch.program == TORCHRUN or "torch" in text or sees_one)
        if launch.program == PYTHON and not text:
            is_only &= not divides
            is_only &= not re.search(rf" --?(d|g|n|ng)[= ]{gpus}\b", line)
        if not _USES_ALL_GPUS.search(text) and (is_certain or is_only):
            count = "one process" if ranks == 1 else f"{ranks} processes"
            yield replace(at(launch.part, f"{gpus} GPUs but {count} per node"), is_certain=is_certain)


def server_per_task(context: Context) -> Iterator[Hit]:
    """Yield servers that srun starts several times on a node."""
    for launch in context.launches_of(SERVER):
        tasks, step = launch.shape.tasks or 1, launch.step or launch.part
        text = context.source.text[step.offset : step.end]
        if launch.starter == SRUN and tasks > 1 and not OF_RANK.search(text):
            yield at(launch.part, f"{tasks} tasks on each node run {launch.program}")


def launcher_per_task(context: Context) -> Iterator[Hit]:
    """Yield launchers that srun starts several times on a node, unless they form one group with a rank each."""
    for launch in (*context.launches, *context.launches_of(ALONE), *context.launches_of(STARTER)):
        tasks, nodes = launch.shape.tasks or 1, launch.shape.nodes or 1
        number = launch.shape.requested.get("ntasks-per-node", "")
        if launch.starter == SRUN and "$" in number and option_of(launch.argv, "nproc_per_node") == number:
            detail = f"srun starts {number} tasks on each node, and {launch.program} in each as many ranks"
            yield at(launch.part, detail)
            continue
        joined = tasks * nodes if launch.role == STARTER else tasks  # mpirun starts the ranks of all nodes
        if launch.starter != SRUN or launch.program == PYTHON or joined == 1 or _may_be_one_of_many(context, launch):
            continue
        one = "1 rank, which trains alone" if launch.nodes == 1 else "1 rank"
        ranks = {None: "its own ranks", 1: one, MANY: "one rank for each GPU"}.get(
            launch.ranks, f"{launch.ranks} ranks"
        )
        yield at(launch.part, f"srun starts {tasks} tasks on each node, and each {launch.program} starts {ranks}")


def _may_be_one_of_many(context: Context, launch: Launch) -> bool:
    """Return whether a launcher can be one of several that each start one rank of the same group, one per task."""
    launcher, step = launchers().get(launch.program), launch.step or launch.part
    if launcher is None or (launch.ranks or 0) > 1:
        return False
    if launch.ranks is None:
        number = option_of(launch.argv, *map(spelled, launcher.ranks), "num_processes") or ""
        sets_ranks = context.mentions(*(name for name, value in launcher.variables.items() if value == "@RANKS@"))
        is_forced = context.mentions(*(name for name, value in launcher.variables.items() if value.isdecimal()))
        return (
            (bool(launcher.variables) and (sets_ranks or not is_forced))
            or "$" in number.replace(OUTER, "$")
            or has_unknown(launch.argv[1:])
        )
    total = (launch.shape.tasks or 1) * (launch.shape.nodes or 1)
    is_of_rank = OF_RANK.search(context.source.text, step.offset, step.end) is not None
    return launch.nodes in (None, total) or is_of_rank


def same_work(context: Context) -> Iterator[Hit]:
    """Yield the first launch of each program that runs as several processes but reads no rank."""
    seen = {""}
    for launch in context.launches:
        nodes = launch.shape.nodes if on_several_nodes(launch) else 1
        processes = launch.ranks_per_node * (nodes or 0)
        step = launch.step or launch.part
        if not 1 < processes < MANY or OF_RANK.search(context.source.text, step.offset, step.end):
            continue
        name, text = context.program(launch)
        if name not in seen and text and not read_program(name, text, "", context.read).reads_rank:
            on_nodes = f" on {nodes} nodes" if (nodes or 1) > 1 else ""
            yield at(launch.part, f"{processes} processes of {name}{on_nodes}")
        seen.add(name)


def local_rank_of_one_gpu(context: Context) -> Iterator[Hit]:
    """Yield programs that select the GPU of their local rank although each task sees only one GPU."""
    variables = context.source.of("variable", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    of_rank = {part.step: part.name for part in variables if part.step >= 0 and _OWN_GPU.search(part.text)}
    for launch in context.launches:
        option = _one_gpu_option(launch.shape) or of_rank.get(launch.part.step)
        if launch.step is None or not option or (launch.shape.tasks or 1) < 2 or launch.program != PYTHON:
            continue
        file, text = context.program(launch)
        match = _TAKES_LOCAL_RANK.search(text)
        if match and _LOCAL_RANKS.findall(text)[-1:] != ["0"]:
            yield at(launch.part, f"with {option}, {file} has {' '.join(match[0].split())[:40]}")


def _one_gpu_option(shape: Shape) -> str:
    """Return the option of srun because of which each task of a step sees one GPU, or an empty string."""
    requested = shape.requested
    found = _GPUS_OF_TRES.search(requested.get("tres-bind", ""))  # since Slurm 23.11, the other name of --gpu-bind
    option, binding = ("--tres-bind=gres/gpu:", found[1]) if found else ("--gpu-bind=", requested.get("gpu-bind", ""))
    if binding:  # it replaces the binding that --gpus-per-task implies
        binding = binding.removeprefix("verbose,").removeprefix("v,")
        return f"{option}{binding}" if _BINDS_ONE_GPU.fullmatch(binding) else ""
    if "ntasks-per-gpu" in requested:
        return "--ntasks-per-gpu"
    if shape.gpus_per_task == 1:
        return "--gpus-per-task=1"
    return "--tres-per-task" if re.search(r"\bgpu(:\w+)*[:=]1\b", requested.get("tres-per-task", "")) else ""


_BINDS_ONE_GPU = re.compile(
    r"single:\d+|per_task:1|map(_gpu)?:\w+(\*\d+)?(,\w+(\*\d+)?)+|mask(_gpu)?:0x[1248]0*(,0x[1248]0*)+"
)
_GPUS_OF_TRES = re.compile(r"\bgres/gpu:([^+]+)")
_OWN_GPU = re.compile(r"^\$\{?(SLURM_LOCALID|LOCAL_RANK)\}?$")


def slots(context: Context) -> Iterator[Hit]:
    """Yield mpirun commands that start more ranks than the job has tasks."""
    shape = context.shape
    tasks = (shape.nodes or 0) * (shape.tasks or 0) if any(context.source.of("directive")) else 0
    if "exclusive" in shape.requested and not any(name.startswith("ntasks") for name in shape.requested):
        tasks = 0  # Slurm then counts the cores of the nodes
    for launch in context.launches_of(STARTER) if tasks else ():
        ranks = launch.ranks or 0
        if launch.starter is None and ranks > tasks and not _OTHER_SLOTS.search(" ".join(launch.argv)):
            yield at(launch.part, f"{ranks} ranks, but {counted(tasks, 'task')}")


_OTHER_SLOTS = re.compile(r"oversubscribe|host|ppr:|-x? ?OMPI_MCA_rmaps")


def world_size(context: Context) -> Iterator[Hit]:
    """Yield a WORLD_SIZE that differs from the known number of tasks, if no launcher sets the variable."""
    shape = context.shape
    tasks = shape.nodes * shape.tasks if shape.nodes and shape.tasks else None
    step_shapes = [launch.shape for launch in context.launches if launch.step is not None]
    if any(launch.program != PYTHON for launch in context.launches) or not step_shapes:
        return
    for part in context.source.of("variable", "WORLD_SIZE"):
        if part.exported or part.scope == STEP:
            if re.search(r"SLURM_CPUS", part.text):
                yield at(part)
            number = context.values.number(part.text.replace(OUTER, "$"))
            counts = {step.nodes * step.tasks for step in step_shapes if step.nodes and step.tasks}
            spawned = (shape.nodes or 1) * (shape.gpus or 1)  # if the program spawns one process per GPU
            if number is not None and tasks is not None and counts == {tasks} and number not in (tasks, spawned):
                yield at(part, f"it is {number}, but srun starts {tasks} tasks")


def issued_tokens(context: Context) -> Iterator[Hit]:
    """Yield access tokens in the issuers' formats, except placeholders. doctor hides tokens of the same formats."""
    for part in context.source.of("line"):
        for start, end in tokens().places(part.text):
            if "xxxxxxxx" not in part.text[start:end].lower():
                yield Hit(offset=part.offset + start, end=part.offset + end)


Finder = Callable[[Context], Iterator[Hit]]


def _of_tuning(search: Finder) -> Finder:
    """Wrap a finder so that its hits are reported as uncertain if the network is unknown."""

    def find(context: Context) -> Iterator[Hit]:
        is_known = context.settings is not None and "fabric" in context.settings.known
        for hit in search(context):
            yield replace(hit, is_certain=is_known)

    return find


_SEARCHES: Sequence[Finder] = (
    idle_gpus, server_per_task, launcher_per_task, same_work, local_rank_of_one_gpu, node_alone, exits.ends_at_once,
    exits.lost_exit_code, directives.no_shebang, directives.options_as_comments, directives.late_options,
    directives.repeated_options, directives.rejected_options, slots, directives.array_indices,
    directives.dos_line_ends, directives.output_folders, world_size, directives.required_options, directives.limits,
    directives.views, issued_tokens, variables.never_set, variables.not_exported, variables.large_ports,
    variables.unset_variables,
)  # fmt: skip
_OF_TUNING: Mapping[str, Finder] = {
    "value": tuned.other_value, "unset": tuned.must_be_unset, "missing": tuned.missing,
    "conflict": tuned.conflicting, "guard": tuned.unguarded, "need": tuned.needed,
}  # fmt: skip
FINDERS: Mapping[str, Finder] = {
    **{search.__name__.replace("_", "-"): search for search in _SEARCHES},
    **{f"tuned-{name}": _of_tuning(search) for name, search in _OF_TUNING.items()},
}
"""The finders by name; a rule refers to one with `finder:`."""
OF_SUBMISSION = frozenset(("required-options", "limits", "output-folders", "rejected-options"))
"""The finders of problems that options of sbatch can solve or that sbatch rejects. A submitted job has none of them."""

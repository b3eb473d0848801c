"""The finders: searches in Python for rules that a pattern in YAML cannot express.

A rule needs a finder if it reports a missing line, compares several commands or lines, computes a number, or reads the
training program, the file system or another YAML file.
"""

from __future__ import annotations

import bisect
import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.check import tuned
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
    TRAINING,
    has_unknown,
    isolation_reason,
    launchers,
    option_names,
    options_before_program,
    program_name,
    programs,
    python_target_index,
    spelled,
)
from uenvtool.check.launchers import option as option_of
from uenvtool.check.parts import BATCH, OUTER, STEP, Hit, Part, Path, at
from uenvtool.check.program import read_program
from uenvtool.check.sbatch import options, rejection, unknown_to_srun
from uenvtool.check.script import BYTE_ORDER_MARK, function_name
from uenvtool.check.shell import AND, FUNCTION, LOOP
from uenvtool.core.errors import did_you_mean
from uenvtool.core.words import counted, grouped
from uenvtool.knowledge.jobs import minutes, time_text
from uenvtool.knowledge.limits import GPUS, NODES, PARTITION, QOS, TIME, excesses
from uenvtool.knowledge.secrets import tokens

_QUIET = re.compile(
    r"export|echo|printf|set|shopt|ulimit|umask|cd|mkdir|module|ml|date|hostname|source|\.|declare|local|unset|let|exit|:"
    r"|true|disown|ls|rm|touch|scontrol|squeue|sacct"
)
"""Commands that neither run a training program nor wait for one."""
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
        if any(_fork(launch.part, step) for step in steps):  # another branch handles several nodes
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


def ends_at_once(context: Context) -> Iterator[Hit]:
    """Yield the last program in the background if the script ends without waiting for it."""
    others = (part for part in context.commands if part.background and part.scope == BATCH and _starts_tasks(part))
    starts = [*_in_background(context), *others]
    started = max(_at_calls(context, starts), key=lambda part: part.offset, default=None)
    if started is None or FUNCTION in started.around:
        return
    later = (part for part in context.commands if part.offset >= started.end and part.scope == BATCH)
    later = (part for part in later if not part.background)
    if all(_QUIET.fullmatch(part.name) or _SHORT_SLEEP.match(part.text) or _fork(started, part) for part in later):
        yield at(started, fix=_WAIT_FOR_ALL if LOOP in started.around else "")


def _at_calls(context: Context, started: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts. The last call of a function replaces a part in it, unless the function can wait for the part."""
    text, commands = context.source.text, context.commands
    offsets = [part.offset for part in commands]
    calls = {text[part.offset : part.end].partition(" ")[0]: part for part in commands if FUNCTION not in part.around}
    for part in started:
        call, index = calls.get(function_name(text, part.path)), bisect.bisect_left(offsets, part.end)
        while call and index < len(commands) and commands[index].path[:1] == part.path[:1]:
            if not (commands[index].background or _QUIET.fullmatch(commands[index].name)):
                call = None  # the function can wait for the part
            index += 1
        yield call or part


_SHORT_SLEEP = re.compile(r"sleep \d{1,2}s?$")
_WAIT_FOR_ALL = (
    'add pids+=($!) after the &, and after the loop: for pid in "${pids[@]}"; do wait "$pid" || status=$?; done; '
    "exit ${status:-0}"
)


def _in_background(context: Context) -> list[Part]:
    """Return the commands of the batch script that start training in the background, also by a function."""
    outer = [_outer(launch) for launch in context.launches]
    started = [part for part in outer if part.background and part.scope == BATCH]
    if any(FUNCTION in part.around for part in outer):
        functions = set(_FUNCTIONS.findall(context.source.text))
        started += [part for part in context.commands if part.background and part.name in functions]
    return started


def _starts_tasks(part: Part) -> bool:
    return part.name in STARTERS or (part.name in _REMOTE_SHELLS and not _TUNNEL.search(part.text))


_FUNCTIONS = re.compile(r"\b(\w+)[ \t]*\(\)")
_REMOTE_SHELLS = frozenset(("ssh", "pdsh", "clush", "parallel-ssh", "pssh"))
_TUNNEL = re.compile(r"\s-\w*[NLRD]")
"""The options with which ssh forwards a port."""


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
    binding = requested.get("gpu-bind", "").removeprefix("verbose,").removeprefix("v,")
    if binding:  # it replaces the binding that --gpus-per-task implies
        return f"--gpu-bind={binding}" if _BINDS_ONE_GPU.fullmatch(binding) else ""
    if "ntasks-per-gpu" in requested:
        return "--ntasks-per-gpu"
    if shape.gpus_per_task == 1:
        return "--gpus-per-task=1"
    return "--tres-per-task" if re.search(r"\bgpu(:\w+)*[:=]1\b", requested.get("tres-per-task", "")) else ""


_BINDS_ONE_GPU = re.compile(
    r"single:\d+|per_task:1|map_gpu:\w+(\*\d+)?(,\w+(\*\d+)?)+|mask_gpu:0x[1248]0*(,0x[1248]0*)+"
)
_OWN_GPU = re.compile(r"^\$\{?(SLURM_LOCALID|LOCAL_RANK)\}?$")


def lost_exit_code(context: Context) -> Iterator[Hit]:
    """Yield the last command of a script or step, the `wait`, or the pipe that hides the exit code of the training."""
    if "slurm" in context.source.kinds:
        commands = grouped((part.step, part) for part in context.commands)
        launches = grouped((launch.part.step, launch) for launch in context.launches) | {-1: context.launches}
        for step in sorted(launches):
            yield from _last_command(context, step, commands.get(step, ()), launches[step])
        yield from _bare_wait(context)
    yield from _piped_launch(context)


def _last_command(context: Context, step: int, commands: Sequence[Part], launches: Sequence[Launch]) -> Iterator[Hit]:
    """Yield commands at the end of a step, or of the script (step -1), that hide a failure of the training."""
    launched = [_outer(launch) if step == -1 else launch.part for launch in launches if _is_training(launch, step)]
    others = (part for part in commands if part.name in (SRUN, *_CONTAINERS) and context.shape.gpus)
    launched += (part for part in others if not _HELPS.search(part.text))
    trained = [part for part in launched if part.step == step and FUNCTION not in part.around]
    trained.sort(key=lambda part: part.offset)
    if not trained or _keeps_exit_code(context, commands, trained[0].end):
        return
    waits = any(part.name == "wait" for part in commands)
    starts = [part.offset for part in trained]
    first = {part.path: part for part in reversed(trained) if not (part.background or part.piped)}
    for i, part in dict(_last_after(trained, commands)).items():
        last, around = commands[i], commands[i].around
        is_training = last.offset < trained[bisect.bisect_right(starts, last.offset) - 1].end or last.name in STARTERS
        follows_or = context.source.text[max(0, last.offset - 200) : last.offset].rstrip().endswith("||")
        keeps_code = _KEEPS_EXIT_CODE.fullmatch(last.name) is not None
        earlier = first.get(last.path)
        if is_training and step == -1 and not part.background and earlier and earlier.end <= last.offset:
            detail = "a later program sets the exit code, even if this one failed"
            yield replace(at(earlier, detail, "add set -e, or srun ... || exit 1"), is_certain=False)
        if is_training or keeps_code or FUNCTION in around or (AND in around and not follows_or):
            continue
        if last.name == "exit" and last.argv[1:] == ("$?",):
            before = commands[i - 1]
            if before.path == last.path and _QUIET.fullmatch(before.name):
                yield at(last, f"$? is the exit code of {before.name}")
        elif not (part.background or waits):
            detail = "the last command sets the exit code, even if training failed"
            after = commands[bisect.bisect_left(commands, part.end, key=lambda command: command.offset) : i + 1]
            is_read = _mails_failure(context) or any(_SAYS_DONE.match(command.text) for command in after)
            is_certain = is_read and _QUIET.fullmatch(last.name) is not None and LOOP not in part.around
            yield replace(at(last, detail), is_certain=is_certain)  # otherwise nobody may read the state of the job


_SAYS_DONE = re.compile(
    r"(?i)exit 0$|(?:echo|printf)\b(?!.*(?:\$\?|code|status|fail)).*\b(?:done|success\w*|completed?|finished)\b"
)
"""Commands that report success."""


def _mails_failure(context: Context) -> bool:
    return re.search(r"(?i)\b(FAIL|ALL)\b", context.shape.requested.get("mail-type", "")) is not None


def _last_after(parts: Sequence[Part], commands: Sequence[Part]) -> Iterator[tuple[int, Part]]:
    """Yield each part with the index of the last command that bash can run in the same run of the script."""
    in_branch: dict[Path, int] = {}
    for part in parts:
        last = len(commands) - 1
        while depth := _fork(part, commands[last]):
            in_branch = in_branch or {
                command.path[:i]: index for index, command in enumerate(commands) for i in range(len(command.path) + 1)
            }
            last = in_branch[part.path[:depth]]
        yield last, part


def _fork(part: Part, other: Part) -> int:
    """Return the nesting depth of the block that has the two parts in different branches, or 0 without such a block."""
    for depth, (block, its_block) in enumerate(zip(part.path, other.path, strict=False), 1):
        if block != its_block:
            return depth if block[:2] == its_block[:2] else 0
    return 0


_STOPS = re.compile(r"\s-[a-zA-Z]*e|errexit")
"""The options of `set` that end a script at the first failure."""
_KEEPS_EXIT_CODE = re.compile(r"wait|exec|pip3?|torchrun|\[\[?|test|false|return|scancel|\| tee|(?s:.*\n.*)")
"""Last commands that return the exit code of training, report its result, or cancel the job."""
_CONTAINERS = ("apptainer", "singularity")
_HELPS = re.compile(
    r"[\s/](hostname|ip|[a-z]+-smi|mkdir|rm|cp|mv|tar|unzip|rsync|echo|cat|date|env|printenv|true|lscpu|pip3?|ray|p?kill(all)?)\b"
)
"""Programs that srun starts for other purposes than training."""


def _is_training(launch: Launch, step: int) -> bool:
    shape = launch.shape
    has_gpus = bool(shape.gpus) or shape.requested.get("exclusive") == ""  # all GPUs of the nodes
    return step >= 0 or launch.program != PYTHON or has_gpus or (shape.tasks or 1) * (shape.nodes or 1) > 1


def _keeps_exit_code(context: Context, commands: Sequence[Part], trained: int) -> bool:
    """Return whether a command handles the exit code of the training, which ends at the offset `trained`."""
    return any(
        (part.name == "set" and _STOPS.search(part.text))
        or (part.name == "trap" and re.search(r"\bERR\b", part.text))
        or (
            part.name == "exit"
            and part.argv[1:] not in ((), ("0",), ("$?",))
            and (part.offset >= trained or FUNCTION in part.around)
        )
        for part in commands
    ) or bool(re.match(r"#!.*\s-[a-z]*e", context.source.text))


def _outer(launch: Launch) -> Part:
    return launch.step or launch.part


def _bare_wait(context: Context) -> Iterator[Hit]:
    waits = [part for part in context.commands if part.name == "wait" and part.scope == BATCH]
    started = _in_background(context) if waits else ()
    if not started or any(len(part.argv) > 1 for part in waits):
        return
    if started[0].offset < waits[-1].offset:
        detail = "wait without a process ID discards the exit code"
        yield at(waits[-1], detail, 'add pid=$! after the program, then use wait "$pid"')


def _piped_launch(context: Context) -> Iterator[Hit]:
    options = " ".join(part.text for part in context.commands if part.name == "set")
    if "pipefail" in options or context.mentions("PIPESTATUS"):
        return
    training = [launch for launch in context.launches if _is_training(launch, launch.part.step)]
    started = {_outer(launch).offset for launch in training} | {launch.part.offset for launch in training}
    before: dict[int, Part] = {}  # the last command that writes to a pipe, by step
    values = grouped((part.name, part.text) for part in context.parts("variable"))
    for part in context.commands:
        source = before.get(part.step) if part.name == "| tee" else None
        if source and (source.offset in started or _is_launcher(source.name, values)):
            hit = at(part, "the exit code of the pipe is that of tee, which does not fail", "set -o pipefail")
            goes_on = LOOP in part.around and not _STOPS.search(options)  # a failed run does not end the other runs
            yield replace(hit, is_certain=not goes_on)
        if part.piped:
            before[part.step] = part


def _is_launcher(word: str, values: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a word is a variable that contains a launcher in each branch of the script."""
    texts = values.get(word.strip("${}"), ()) if word[:1] == "$" else ()
    found = [{(role, name) for role, name, _ in programs(text.split())} for text in texts]
    return bool(found) and all(any(role == TRAINING and name != PYTHON for role, name in each) for each in found)


def never_set(context: Context) -> Iterator[Hit]:
    """Yield launches whose options for the rendezvous contain variables that nothing in the script sets.

    The problem is a hint if the script runs a file that can set the variables.
    """
    seen = {part.name for part in context.parts("variable")}
    launched = []
    for launch in context.launches:
        used = () if launch.is_prepared else dict.fromkeys(_rendezvous_variables(launch))
        names = [name for name in used if name not in seen and not _FROM_OUTSIDE.fullmatch(name)]
        seen.update(names)
        launched += [(launch, names)] if names else []
    if launched:
        files = _sourced(context)
        texts = [context.source.text, *map(context.read, files)]
        known = {name for text in texts for match in _NAMED.finditer(text) for name in match.groups() if name}
        is_hidden = any(
            not text and not _SETS_NO_RANKS.search(file) for file, text in zip(files, texts[1:], strict=True)
        )
        for launch, names in launched:
            if unset := [name for name in names if name not in known]:
                yield replace(at(launch.part, ", ".join(unset)), is_certain=not is_hidden)


def _sourced(context: Context) -> list[str]:
    return [part.argv[1] for part in context.source.of("command", "source", ".") if len(part.argv) > 1]


def _rendezvous_variables(launch: Launch) -> Iterator[str]:
    """Yield the variables in the launcher's options for the rendezvous. For `python`, yield only known variables."""
    if launch.program == PYTHON:
        yield from (name for word in launch.argv for name in _used(word) if _RENDEZVOUS.fullmatch(name))
        return
    names = option_names(launch.program)
    for name, value in options_before_program(launch.argv).items():
        if name in names:
            yield from _used(value)


def _used(word: str) -> Iterator[str]:
    if "$" in word or OUTER in word:
        yield from (match[1] or match[2] for match in _USED.finditer(word))


_USED = re.compile(rf"[${OUTER}](?:([A-Za-z_]\w*)|\{{([A-Za-z_]\w*)\}})")
_NAMED = re.compile(r"(?<![\w${])([A-Za-z_]\w*)|\$\{(\w+):?[-=?+]|-[nz]\s+[\"']?\$\{?(\w+)")
"""Matches a name without `$`, which can be any form of assignment, or a test whether a variable is set."""
_RENDEZVOUS = re.compile(r"MASTER_(ADDR|PORT)|NNODES|NODE_RANK|WORLD_SIZE|GPUS_PER_NODE|NPROC_PER_NODE")
_FROM_OUTSIDE = re.compile(
    r"(SLURM|PMIX?|OMPI|PALS|FLUX|PBS|LSB)D?_\w+|HOSTNAME|HOST|RANDOM|USER|UID|HOME|PWD|TMPDIR|SCRATCH|PPID|BASHPID|EPOCH\w+"
)
_SETS_NO_RANKS = re.compile(r"/bin/activate$|conda\w*\.sh$|/\.?(bashrc|profile|bash_profile)$|^activate$|/etc/")
"""Files that activate an environment but set no variables for the ranks."""


def unset_variables(context: Context) -> Iterator[Hit]:
    """Yield the commands and assignments that use a lower-case variable, or an array, which nothing in the script sets.

    The shell that submits the job can set other variables, because it exports their names in capital letters.
    """
    if any(context.source.of("command", "eval")) or not all(map(_SETS_NO_RANKS.search, _sourced(context))):
        return
    lines = "\n".join(part.text for part in context.parts("line"))
    known = {name for match in _NAMED.finditer(_IN_OPTION.sub("", lines)) for name in match.groups() if name}
    known.update(re.findall(r"\b(\w+)=", context.source.text))  # a comment on sbatch --export=NAME=VALUE
    for part in (*context.commands, *context.parts("variable")):
        text = "" if part.literal else _IN_SINGLE_QUOTES.sub("", context.source.text[part.offset : part.end])
        for match in _USED_OR_INDEXED.finditer(text):
            name = match[1] or match[2]
            if name not in known and not _OF_BASH.fullmatch(name):
                known.add(name)
                yield at(part, name)


_IN_OPTION = re.compile(r"[%/.\\-]\w+")
"""Matches a word that is not the name of a variable, such as `-n`, `%n` or `/name`."""
_IN_SINGLE_QUOTES = re.compile(r"'[^']*'")
_USED_OR_INDEXED = re.compile(r"(?<![\\\w$])\$(?:\{?([a-z][a-z0-9_]*)\b|\{([A-Za-z_]\w*)\[)")
"""Matches a variable with a lower-case name, or an element of an array."""
_OF_BASH = re.compile(r"BASH_\w+|FUNCNAME|PIPESTATUS|DIRSTACK|GROUPS|COPROC|MAPFILE|histchars|\w+_proxy")
"""The arrays that bash sets, and the lower-case variables that are usually set outside the script."""


def not_exported(context: Context) -> Iterator[Hit]:
    """Yield commands of an inner shell that use a variable which only the batch script's own shell sees.

    The problem is a hint if the script runs a file that can export the variable.
    """
    variables = context.parts("variable")
    others = {part.name for part in variables if part.exported or _in_other_shell(part)}
    others |= {name for match in _SETS.finditer(context.source.text) for name in _WORD.findall(match[0])}
    texts = grouped((part.name, part.text) for part in variables if part.name not in others)
    # a value that contains the value from outside keeps its export
    own = {
        name for name in texts if not _FROM_OUTSIDE.fullmatch(name) and not all(_has_own(name, t) for t in texts[name])
    }
    is_hidden = not all(map(_SETS_NO_RANKS.search, _sourced(context)))
    steps = {part.offset: part for part in context.commands}
    for part in (*context.commands, *variables) if own else ():
        step = steps.get(part.step)
        is_expanded = step is not None and part.offset >= step.end and not part.literal  # in a heredoc
        is_expanded |= context.source.text[part.offset] == "$"  # the batch script can expand the value of the variable
        if not _in_other_shell(part) or is_expanded:
            continue
        used = {name for match in _INNER.finditer(" ".join(part.argv) or part.text) for name in match.groups() if name}
        words = step.argv if step and used & own else ()  # such as --export=ALL,NAME
        names = sorted((used & own).difference(*(_WORD.findall(word) for word in words if not re.search(r"\s", word))))
        own.difference_update(names)
        if names:
            yield replace(at(part, ", ".join(names), f"export {' '.join(names)}"), is_certain=not is_hidden)


def _in_other_shell(part: Part) -> bool:
    return part.scope == STEP or part.literal


def _has_own(name: str, text: str) -> bool:
    return re.search(rf"\$(?:{name}\b|\{{{name}\b(?!:?[-=]))", text) is not None


_INNER = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:[}%#/^,\[]|:\d))")
_WORD = re.compile(r"(?<![\w${])[A-Za-z_]\w*")
_SETS = re.compile(r"\b(?:(?:for|select|printf\s+-v)\s+\w+|(?:read|mapfile|readarray|getopts)\b[^;&|<\n]*)")
"""Commands that set a variable without an assignment."""


def large_ports(context: Context) -> Iterator[Hit]:
    """Yield ports that are computed from a number, such as the job ID, and can exceed 65535."""
    for part in context.parts("line"):
        for match in _COMPUTED_PORT.finditer(part.text):
            first, modulus = (int(number) for number in (match[1] or match[4], match[2] or match[3]))
            most = first + min(modulus, 32768 if "RANDOM" in match[0] else modulus) - 1
            if most > 65535:
                place = part.offset + match.start()
                yield Hit(offset=place, end=part.offset + match.end(), detail=f"up to {most}")


_COMPUTED_PORT = re.compile(
    r"(?i:port)\w{0,9}[= ][\"']?[^\s=]{0,60}?\$\(\([^)]{0,60}?"
    r"(?:\b(\d{1,9}) {0,4}\+[^+%)]{1,60}% {0,4}(\d{1,9})|% {0,4}(\d{1,9})[ )]{0,9}\+ {0,4}(\d{1,9}))"
)


def late_options(context: Context) -> Iterator[Hit]:
    """Yield #SBATCH lines after the first command. A block of lines is one problem, and --fix moves it as a whole."""
    text = context.source.text
    if not context.source.has_shebang and _SHEBANG.search(text):  # sbatch rejects the script before it reads options
        return
    first = min((part.offset for part in context.commands), default=0)
    above = text.rfind("\n", 0, first) + 1
    block: list[Part] = []
    for part in [*context.source.of("late"), None]:
        if block and (part is None or text.count("\n", block[-1].offset, part.offset) > 1):
            yield Hit(offset=block[0].offset, end=block[0].end, edits=_moved(context, block, above))
            block = []
        block += [part] if part else []


def _moved(context: Context, block: Sequence[Part], above: int) -> tuple[tuple[int, int, str], ...]:
    """Return the edits that move option lines up, or no edits if an option already appears above or is repeated."""
    if any(part.name in context.shape.requested for part in block) or len({part.name for part in block}) < len(block):
        return ()
    text = context.source.text
    starts = sorted({text.rfind("\n", 0, part.offset) + 1 for part in block})
    lines = [(start, text.find("\n", start) + 1 or len(text)) for start in starts]
    moved = "".join(text[start:end].rstrip("\n") + "\n" for start, end in lines)
    return ((above, above, moved), *((start, end, "") for start, end in lines))


def other_time(context: Context) -> Iterator[Hit]:
    """Yield a time limit that differs from the duration in the comment on its line."""
    for part in context.source.of("directive", "time"):
        comment = _COMMENT.match(context.source.text, part.end)
        found = _DURATION.findall(comment[1]) if comment else []
        if comment and found and _ONLY_TIME.fullmatch(_DURATION.sub("", comment[1])):
            stated = math.ceil(sum(float(number) * _MINUTES[unit[0].lower()] for number, unit in found))
            with contextlib.suppress(ValueError):
                limit = minutes(part.text)
                if abs(limit - stated) > 0.1 * max(limit, stated):
                    yield at(part, f"{part.text} is {time_text(limit)}, the comment says {time_text(stated)}")


_COMMENT = re.compile(r"[ \t]+#+(.*)")
_DURATION = re.compile(
    r"(?i)(?<!\d)(\d{1,5}(?:\.\d{1,5})?)\s*(days?|d|天|hours?|hrs?|h|小时|minutes?|mins?|m|分钟|seconds?|secs?|s|秒)(?![a-z])"
)
_MINUTES = {"d": 1440, "天": 1440, "h": 60, "小": 60, "m": 1, "分": 1, "s": 1 / 60, "秒": 1 / 60}
_ONLY_TIME = re.compile(r"(?i)(\W|_|wall|clock|run|time|limit|set|to|of|and|the|for|total|requested|运行时间)*")
"""Words in a comment that states only the time limit. A comment with other words can state the partition's limit."""


def array_indices(context: Context) -> Iterator[Hit]:
    """Yield the --array option for each list that has no element for a task, or more elements than the tasks use.

    The second problem is a hint, because the other elements may belong to another submission.
    """
    array = next(context.source.of("directive", "array"), None)
    tasks = _array_tasks(array.text) if array else ()
    if array is None or not tasks:
        return
    indexed = [match.groups() for part in context.parts("line") for match in _INDEXED.finditer(part.text)]
    unused: dict[str, set[int]] = {}
    for name, expression in list(dict.fromkeys(indexed))[:_MOST_INDICES]:
        elements = context.values.elements(name) or ()
        has_more = elements and re.search(rf"\b{name}\[[^\]\n]*\]\+?=", context.source.text)  # NAME[INDEX]=VALUE
        count, indices = 0 if has_more else len(elements), _indices(context, expression, tasks)
        left = unused.setdefault(name, set(range(count)))
        left.difference_update(index % count for index in indices if count)
        outside = next((i for i, index in enumerate(indices) if count and not -count <= index < count), None)
        if outside is not None:
            first = tasks[0] - indices[0]
            is_shifted = all(task - index == first for task, index in zip(tasks, indices, strict=True))
            fix = f"#SBATCH --array={first}-{first + count - 1}" if is_shifted and first >= 0 else ""
            detail = f"{name} has {counted(count, 'element')}, and task {tasks[outside]} uses index {indices[outside]}"
            yield at(array, detail, fix)
        if outside is not None or not indices:
            left.clear()
    for name, left in unused.items():
        if left and len(set(tasks)) > 1 and "," not in array.text and not context.mentions(f"${{{name}[@]}}"):
            yield replace(at(array, f"no task uses {counted(len(left), 'element')} of {name}"), is_certain=False)


def _indices(context: Context, expression: str, tasks: Sequence[int]) -> list[int]:
    """Return the index of a list in each task of an array, or an empty list if an index is unknown."""
    known, indices = context.values.known, list[int]()
    for known["SLURM_ARRAY_TASK_ID"] in tasks:
        index = context.values.calculated(expression)
        indices += [] if index is None else [index]
    known.pop("SLURM_ARRAY_TASK_ID")
    return indices if len(indices) == len(tasks) else []


def _array_tasks(text: str) -> Sequence[int]:
    """Return the task numbers of --array, only some of a long range, or () if it has another form."""
    ranges = [_RANGE.fullmatch(part) for part in text.partition("%")[0].split(",")]
    if not all(ranges):
        return ()
    numbers = [[int(number or 0) for number in match.groups()] for match in ranges if match]
    tasks = [range(first, max(first, last) + 1, step or 1) for first, last, step in numbers]
    return [task for some in tasks for task in (*some[:_MOST_TASKS], some[-1])]


_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")
_MOST_TASKS, _MOST_INDICES = 500, 20
"""The maximum number of tasks in a row, and of different indices, that are calculated."""
_INDEXED = re.compile(r"\$\{(\w+)\[((?:[^\[\]]|\[[@*]\])+)\]\}")


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


def repeated_options(context: Context) -> Iterator[Hit]:
    """Yield sbatch options that an earlier #SBATCH line sets to another value, except in a heterogeneous job."""
    if any(_HETEROGENEOUS.match(part.text) for part in context.parts("sbatch")):
        return
    given: dict[str, str] = {}
    for part in context.source.of("directive"):
        before = given.setdefault(part.name, part.text)
        if part.text != before and part.name != "mail-type":  # sbatch adds the events
            yield at(part, f"--{part.name}={part.text} replaces {before}")
            given[part.name] = part.text


_HETEROGENEOUS = re.compile(r"hetjob|packjob")


def rejected_options(context: Context) -> Iterator[Hit]:
    """Yield the #SBATCH lines that sbatch rejects, and the options that srun does not have."""
    for part in context.parts("sbatch"):
        found = rejection(part.text)
        if found:
            yield replace(at(part, found.reason, found.fix), is_certain=found.is_certain)
    for step in context.source.of("command", SRUN):
        unknown = unknown_to_srun(step.argv[1:])
        if unknown:
            place = max(context.source.text.find(f"--{unknown[0]}", step.offset, step.end), step.offset)
            yield Hit(offset=place, end=step.end, detail=f"srun has no option --{unknown[0]}", is_certain=False)


def no_shebang(context: Context) -> Iterator[Hit]:
    """Yield the start of a file that has #SBATCH lines but does not begin with `#!`.

    The problem is a hint if no line has `#!`, because the file may be a fragment that another file includes.
    """
    if context.source.has_shebang or {"directive", "late", "ignored"}.isdisjoint(
        part.kind for part in context.source.parts
    ):
        return
    text = context.source.text
    follows_mark = text.startswith(f"{BYTE_ORDER_MARK}#!")
    detail = "a byte order mark precedes it" if follows_mark else ""
    edits = ((0, 1, ""),) if follows_mark else ()
    is_certain = _SHEBANG.search(text) is not None
    fix = "remove the text before #!" if is_certain and any(context.source.of("late")) else ""
    yield Hit(offset=0, end=max(text.find("\n"), 1), detail=detail, fix=fix, edits=edits, is_certain=is_certain)


_SHEBANG = re.compile(rf"^[\s{BYTE_ORDER_MARK}]*#[ \t]*![ \t]*/", re.MULTILINE)


def options_as_comments(context: Context) -> Iterator[Hit]:
    """Yield one problem for all #SBATCH lines that sbatch ignores as comments.

    A line with a space before `#`, or with a misspelt SBATCH, is a certain problem. `# SBATCH` is only a hint if the
    file has valid #SBATCH lines, because it may switch an option off.
    """
    are_all = not any(context.source.of("directive"))
    ignored = list(context.source.of("ignored"))
    certain = [part for part in ignored if are_all or not part.text.startswith("# ")]
    lines = certain or ignored
    if lines:
        detail = f"{len(lines)} lines" if len(lines) > 1 else ""
        edits = tuple((part.offset, part.offset + part.text.index("-"), "#SBATCH ") for part in certain)
        first, is_certain = lines[0], bool(certain)
        yield Hit(offset=first.offset, end=first.end, detail=detail, edits=edits, is_certain=is_certain)


def dos_line_ends(context: Context) -> Iterator[Hit]:
    """Yield the first line with a CRLF line ending, with edits for all such lines."""
    returns = context.source.carriage_returns
    if returns:
        start = context.source.text.rfind("\n", 0, returns[0]) + 1
        edits = tuple((place, place + 1, "") for place in returns)
        yield Hit(offset=start, end=returns[0], detail=counted(len(returns), "line"), edits=edits)


def output_folders(context: Context) -> Iterator[Hit]:
    """Yield one problem for each output directory that does not exist, because Slurm does not create it."""
    submits = any(part.name == "sbatch" and re.search(r"\$\{?(0|BASH_SOURCE)", part.text) for part in context.commands)
    if submits and any(part.name == "mkdir" for part in context.commands):  # it creates them and submits itself
        return
    comments = "\n".join(re.findall(r"^[ \t]*#.*\bmkdir\b(.*)", context.source.text, re.MULTILINE))
    seen = set()
    for part in context.source.of("directive", "output", "error"):
        path, _, name = part.text.removeprefix("./").rpartition("/")
        if path in seen:
            continue
        seen.add(path)
        exists = path in ("", ".", "..") or _UNKNOWN_PATH.match(path) or context.has_directory(path)
        is_elsewhere = path[:1] == "/" and not context.has_directory("/".join(path.split("/")[:2]))
        if not exists and not is_elsewhere and path not in comments:
            fixed, percent, rest = path.partition("%")  # a directory with the job ID cannot exist before the job
            new = "-".join((*(each for each in f"{percent}{rest}".split("/") if each not in name), name))
            renamed = f"#SBATCH --{part.name}={fixed}{new}" if percent else ""
            made = f"mkdir -p {fixed.rstrip('/')}  # in the submit directory, before sbatch" if fixed else ""
            yield at(part, fix=", ".join(filter(None, (renamed, made))))


_UNKNOWN_PATH = re.compile(rf"[~]|.*[<>{{}}\[\]${OUTER}]|(?i:.*\b(path/to|your|my[_-]))")
"""The paths that the rule does not check: paths with variables, and placeholders."""


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


def required_options(context: Context) -> Iterator[Hit]:
    """Yield the sbatch options that are missing although the given system requires them."""
    first = next(context.source.of("directive"), None)
    for name in context.system.jobs.required if context.system else ():
        if first is not None and name not in context.shape.requested:
            yield at(first, f"--{name}", f"#SBATCH --{name}=NAME")


def limits(context: Context) -> Iterator[Hit]:
    """Yield one option that exceeds a limit of the job's partition, and one that exceeds a limit of its QOS."""
    system, shape = context.system, context.shape
    given = {part.name: part for part in context.source.of("directive")}
    if system is None or not given:
        return
    partition, qos, time = (shape.requested.get(name, "") for name in (PARTITION, QOS, TIME))
    nodes = shape.nodes or 1
    try:
        gpus = nodes * (shape.gpus or 0)
        found = min((list(excesses(system, name, qos, nodes, gpus, time)) for name in partition.split(",")), key=len)
    except ValueError:  # for example if the time is a placeholder
        return
    for kind, (excess, *_) in grouped((excess.kind, excess) for excess in found).items():
        names = (excess.of, *_SETTING[excess.of], *given)
        part = next(given[name] for name in names if name in given)
        most = f"--{excess.of}={excess.most}" if excess.of != GPUS else "fewer GPUs" if excess.most else ""
        ways = (most, f"--{kind}={' or '.join(excess.others)}" if excess.others else "")
        hit = at(part, f"--{part.name}={part.text}: {excess.says}", f"use {', or '.join(filter(None, ways))}")
        # the command line of sbatch may contain the number of nodes
        yield replace(hit, is_certain=shape.nodes is not None and bool({"nodes", "ntasks"} & given.keys()))


_SETTING = {TIME: (), NODES: ("ntasks",), GPUS: ("gpus-per-node", "gres", "gpus-per-task", PARTITION)}
"""By kind of limit, the other options that set the value, in addition to the option of the same name."""


def views(context: Context) -> Iterator[Hit]:
    """Yield the views that the image of the script does not contain."""
    recipe = context.recipe
    if recipe is None or any("," in part.text for part in context.source.of("directive", "uenv")):
        return
    steps = ((part, options(part.argv[1:])[0].get("view", "")) for part in context.source.of("command", SRUN))
    for part, text in (*((part, part.text) for part in context.source.of("directive", "view")), *steps):
        for view in filter(None, text.split(",")):
            if view not in recipe.all_views and ":" not in view and not view.startswith(("$", "<", "{")):
                fix = did_you_mean(view, recipe.all_views) or f"use {' or '.join(sorted(recipe.all_views))}"
                yield at(part, f"{recipe.name} has no view {view!r}", fix)


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
    idle_gpus, server_per_task, launcher_per_task, same_work, local_rank_of_one_gpu, node_alone, ends_at_once,
    lost_exit_code, no_shebang, options_as_comments, late_options, repeated_options, rejected_options, slots,
    array_indices, dos_line_ends, output_folders, world_size, required_options, limits, views, issued_tokens, never_set,
    not_exported, large_ports, unset_variables, other_time,
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

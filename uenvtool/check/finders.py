"""The searches that a rule can name: what no pattern of one part of a file can tell; each says why it is no row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.check import tuned
from uenvtool.check.blocks import AND, FUNCTION
from uenvtool.check.context import Context
from uenvtool.check.launch import PYTHON, Launch, on_several_nodes
from uenvtool.check.launchers import (
    PYTHON_NAME,
    SRUN,
    STARTERS,
    TORCHRUN,
    alone,
    behind_python,
    has_unknown,
    launchers,
    program_name,
)
from uenvtool.check.launchers import option as option_of
from uenvtool.check.parts import BATCH, OUTER, STEP, Hit, Part, at
from uenvtool.check.script import BYTE_ORDER_MARK
from uenvtool.core.words import grouped
from uenvtool.knowledge.secrets import tokens

_QUIET = re.compile(
    r"export|echo|printf|set|shopt|ulimit|umask|cd|mkdir|module|ml|date|hostname|source|\.|declare|local"
)
"""Commands that start no program which could have read a variable."""
_TAKES_LOCAL_RANK = re.compile(
    r"set_device\([^)\n]*local_?rank|Trainer\([^)]*devices=[2-9]|initialize_distributed_from_config|deepspeed\.init",
    re.IGNORECASE,
)
_LOCAL_RANKS = re.compile(r"\blocal_?rank[ \t]*=[ \t]*(\w+)", re.IGNORECASE)
"""What a program takes for its local rank, the last of which holds: 0 of the one GPU that it sees."""
_USES_ALL_GPUS = re.compile(
    r"DataParallel\(|device_map|vllm|tensor_parallel|jax|tensorflow|mp\.spawn|\bray\b|multiprocessing|Accelerator\(|devices="
)


def _first_node_only(context: Context) -> Iterator[Hit]:
    for launch in context.launches:
        several = (context.shape.nodes or 1) > 1
        if launch.starter or launch.program == PYTHON or not several or "slurm" not in context.source.kinds:
            continue
        if option_of(launch.words, "hostfile", "host") or context.mentions("hostfile"):
            continue
        if context.mentions("ssh ", "pdsh", "parallel"):
            continue
        arms = {block[:2]: block[2] for block in launch.part.path}
        steps = (block for step in context.source.of("command", *STARTERS) for block in step.path)
        if any(arms.get(block[:2], block[2]) != block[2] for block in steps):  # the other arm serves several nodes
            continue
        waits = (launch.nodes or 1) > 1
        yield at(
            launch.part,
            f"{launch.program} runs on the first of {context.shape.nodes} nodes alone"
            + (", and waits there for the others" if waits else ""),
            f"srun --ntasks-per-node=1 {launch.program} ...: without srun nothing starts it on the others",
        )


def node_alone(context: Context) -> Iterator[Hit]:
    """Yield launchers on several nodes without the address of the others.

    No row: the launchers' files say which options have the address, and what is the default.
    """
    yield from _first_node_only(context)
    for launch in context.launches:
        begin = behind_python(launch.words) + 2 if PYTHON_NAME.match(program_name(launch.words[0])) else 1
        ends = (i for i, word in enumerate(launch.words) if i >= begin and (word.endswith(".py") or word == "-m"))
        words = launch.words[begin : next(ends, None)]
        is_one = launch.program != PYTHON and (launch.shape.tasks or 1) == 1  # else launcher-in-launcher says so
        if not is_one or not on_several_nodes(launch) or has_unknown(words) or option_of(words, "config_file"):
            continue
        launcher = launchers()[launch.program]
        if launcher.environment and context.mentions(launcher.environment):
            continue
        reason = alone(launcher, words)
        if not reason and launch.part.scope == STEP:
            own = _OWN_ON_EACH.search(context.source.text, launch.part.offset, launch.part.end)
            reason = f"{own[1] or own[2]} is another one on each node" if own else ""
        if reason:
            yield at(launch.part, reason)


_OWN_ON_EACH = re.compile(
    r"--(?:(?:rdzv[_-]endpoint|master[_-]addr|main_process_ip)[= ]\"?"
    r"(\$\(hostname\)|`hostname`|\$HOSTNAME|\$SLURMD_NODENAME)|rdzv[_-]id[= ]\"?\\?(\$RANDOM))"
)


def ends_at_once(context: Context) -> Iterator[Hit]:
    """Yield a step in the background that the end of the script ends.

    No row: it depends on what stands behind the last step.
    """
    last = max((_outer(launch).offset for launch in context.launches if _outer(launch).scope == BATCH), default=-1)
    for launch in context.launches:
        step = _outer(launch)
        if step.offset == last and step.background and not step.path:
            behind = (part for part in context.commands if part.offset >= step.end and part.scope == BATCH)
            if all(_QUIET.fullmatch(part.name) for part in behind):
                yield at(step)
                return


def idle_gpus(context: Context) -> Iterator[Hit]:
    """Yield fewer ranks than GPUs on a node; a hint where the program is not read, which may start more.

    No row: the training program is read.
    """
    for launch in context.launches:
        gpus, ranks = launch.shape.gpus or 0, launch.of_node
        is_ours = launch.starter in (None, SRUN) or launch.program != PYTHON
        if not ranks or not is_ours or launch.part.background or not ranks < gpus:
            continue
        line = " ".join(launch.words)
        if _USES_ALL_GPUS.search(line) or re.search(r"(tp|gpu|parallel|devices|world|strategy|\bmp\b)", line):
            continue
        _, text = context.program(launch)
        is_shown = ranks == 1 and (launch.program == TORCHRUN or "torch" in text)
        is_only = len(context.launches) == 1
        if not _USES_ALL_GPUS.search(text) and (is_shown or is_only):
            count = "one process" if ranks == 1 else f"{ranks} processes"
            yield replace(at(launch.part, f"{gpus} GPUs a node, and {count}"), is_certain=is_shown)


def local_rank_of_one_gpu(context: Context) -> Iterator[Hit]:
    """Yield programs that take the GPU of their local rank where each task sees one GPU alone.

    No row: the training program is read.
    """
    for launch in context.launches:
        shape = launch.shape
        if launch.step is None or shape.gpus_per_task != 1 or (shape.tasks or 1) < 2 or launch.program != PYTHON:
            continue
        if shape.requested.get("gpu-bind") == "none":
            continue
        file, text = context.program(launch)
        found = _TAKES_LOCAL_RANK.search(text)
        if found and _LOCAL_RANKS.findall(text)[-1:] != ["0"]:
            yield at(launch.part, f"{file} has {' '.join(found[0].split())[:40]}")


def lost_exit_code(context: Context) -> Iterator[Hit]:
    """Yield what loses the exit code of training: the last command of a script or a step, `wait`, or a pipe.

    No row: it depends on what runs before and behind.
    """
    if "slurm" in context.source.kinds:
        commands = grouped((part.step, part) for part in context.commands)
        launches = grouped((launch.part.step, launch) for launch in context.launches) | {-1: context.launches}
        for step in sorted(launches):
            yield from _last_command(context, step, commands.get(step, ()), launches[step])
        yield from _bare_wait(context)
    yield from _piped_launch(context)


def _last_command(context: Context, step: int, commands: Sequence[Part], launches: Sequence[Launch]) -> Iterator[Hit]:
    """Yield the last command of the script, or of what a step runs, if training runs before it, and can have failed.

    step: the offset of what starts the step, -1 for the script itself. commands, launches: in it.
    """
    launched = [_outer(launch) if step == -1 else launch.part for launch in launches if _computes(launch, step)]
    launched += (part for part in commands if part.name == SRUN and context.shape.gpus and not _HELPS.search(part.text))
    trained = [part for part in launched if part.step == step and FUNCTION not in part.around]
    trained.sort(key=lambda part: part.offset)
    if not trained or _keeps_exit_code(context, commands, trained[0].end):
        return
    last, before = commands[-1], commands[-2:-1]
    is_own = any(part.offset <= last.offset < part.end for part in trained) or last.name in STARTERS
    around = last.around
    is_instead = context.source.text[: last.offset].rstrip().endswith("||")
    if is_own or _GIVES_ANOTHERS.fullmatch(last.name) or FUNCTION in around or (AND in around and not is_instead):
        return
    if last.name == "exit" and last.words[1:] == ("$?",):
        if before and before[0].path == last.path and _QUIET.fullmatch(before[0].name):
            yield at(last, f"$? is that of {before[0].name}")
    elif not (trained[-1].background or any(part.name == "wait" for part in commands)):
        yield at(last, "the last command gives its own, whatever training did")


_GIVES_ANOTHERS = re.compile(r"wait|exec|pip3?|torchrun|\[\[?|test|false|return|scancel|\| tee|(?s:.*\n.*)")
"""Last commands that say how training ended, or do not let it end."""


_HELPS = re.compile(
    r"[\s/](hostname|ip|[a-z]+-smi|mkdir|rm|cp|mv|tar|unzip|rsync|echo|cat|date|env|printenv|true|lscpu|pip3?|ray|p?kill(all)?)\b"
)
"""What srun starts beside training."""


def _computes(launch: Launch, step: int) -> bool:
    """Tell if a launch is training, and no helper of the batch script."""
    shape = launch.shape
    return step >= 0 or launch.program != PYTHON or bool(shape.gpus) or (shape.tasks or 1) * (shape.nodes or 1) > 1


def _keeps_exit_code(context: Context, commands: Sequence[Part], trained: int) -> bool:
    """Tell if commands do something about the exit code of those before them. trained: where training ends."""
    return any(
        (part.name == "set" and re.search(r"\s-[a-zA-Z]*e|errexit", part.text))
        or (part.name == "trap" and re.search(r"EXIT|ERR\b", part.text))
        or (
            part.name == "exit"
            and part.words[1:] not in ((), ("0",), ("$?",))
            and (part.offset >= trained or FUNCTION in part.around)
        )
        for part in commands
    ) or bool(re.match(r"#!.*\s-[a-z]*e", context.source.text))


def _outer(launch: Launch) -> Part:
    return launch.step or launch.part


def _bare_wait(context: Context) -> Iterator[Hit]:
    """Yield `wait` without a process, behind programs in the background."""
    waits = [part for part in context.commands if part.name == "wait" and part.scope == BATCH]
    started = [_outer(other) for other in context.launches if _outer(other).background and other.part.scope == BATCH]
    if any(FUNCTION in _outer(other).around for other in context.launches):
        calls = (part for part in context.commands if part.background and re.fullmatch(r"\w+", part.name))
        started += [part for part in calls if re.search(rf"\b{part.name}[ \t]*\(\)", context.source.text)]
    if not started or any(len(part.words) > 1 for part in waits):
        return
    for part in waits[-1:]:
        if started[0].offset < part.offset:
            yield at(part, "wait without a process forgets it", 'pid=$! behind the program, and then wait "$pid"')


def _piped_launch(context: Context) -> Iterator[Hit]:
    """Yield `tee` behind a program that computes, where the pipe's exit code is that of tee."""
    fails = any(part.name == "set" and "pipefail" in part.text for part in context.commands)
    if fails or context.mentions("PIPESTATUS"):
        return
    started = {_outer(launch).offset for launch in context.launches} | {other.part.offset for other in context.launches}
    before: dict[int, int] = {}  # the last command that writes to a pipe, by its step
    for part in context.commands:
        if part.name == "| tee" and before.get(part.step) in started:
            yield at(part, "that of a pipe is tee's, which does not fail", "set -o pipefail")
        if part.piped:
            before[part.step] = part.offset


def late_options(context: Context) -> Iterator[Hit]:
    """Yield options of #SBATCH lines behind the first command, one finding a block of lines.

    No row: lines that stand together are one finding, and are moved together.
    """
    text = context.source.text
    first = min((part.offset for part in context.commands), default=0)
    above = text.rfind("\n", 0, first) + 1
    block: list[Part] = []
    for part in [*context.source.of("late"), None]:
        if block and (part is None or text.count("\n", block[-1].offset, part.offset) > 1):
            yield Hit(offset=block[0].offset, end=block[0].end, edits=_moved(context, block, above))
            block = []
        block += [part] if part else []


def _moved(context: Context, block: Sequence[Part], above: int) -> tuple[tuple[int, int, str], ...]:
    """Return the edits that move lines of options up; none if one of them stands there already."""
    if any(part.name in context.shape.requested for part in block) or len({part.name for part in block}) < len(block):
        return ()
    text = context.source.text
    starts = sorted({text.rfind("\n", 0, part.offset) + 1 for part in block})
    lines = [(start, text.find("\n", start) + 1 or len(text)) for start in starts]
    moved = "".join(text[start:end].rstrip("\n") + "\n" for start, end in lines)
    return ((above, above, moved), *((start, end, "") for start, end in lines))


def no_shebang(context: Context) -> Iterator[Hit]:
    """Yield the start of a file with #SBATCH lines that does not say what runs it.

    Where no line says so, it can be a part that another file begins. No row: what is not there is no part.
    """
    if context.source.has_shebang or not any(part.kind in ("directive", "ignored") for part in context.source.parts):
        return
    text = context.source.text
    is_behind_mark = text.startswith(f"{BYTE_ORDER_MARK}#!")
    detail = "a byte order mark stands before it" if is_behind_mark else ""
    edits = ((0, 1, ""),) if is_behind_mark else ()
    is_certain = _SHEBANG.search(text) is not None
    yield Hit(offset=0, end=max(text.find("\n"), 1), detail=detail, edits=edits, is_certain=is_certain)


_SHEBANG = re.compile(rf"^[\s{BYTE_ORDER_MARK}]*#[ \t]*![ \t]*/", re.MULTILINE)


def options_as_comments(context: Context) -> Iterator[Hit]:
    """Yield #SBATCH lines that are comments to sbatch.

    Behind a blank they always are; one behind the `#` can be a way to switch an option off beside others: a hint.
    No row: all lines of a file are one finding.
    """
    are_all = not any(context.source.of("directive"))
    every = list(context.source.of("ignored"))
    certain = [part for part in every if are_all or not part.text.startswith("#")]
    lines = certain or every
    if lines:
        detail = f"{len(lines)} lines" if len(lines) > 1 else ""
        edits = tuple((part.offset, context.source.text.find("SBATCH", part.offset), "#") for part in certain)
        first, is_certain = lines[0], bool(certain)
        yield Hit(offset=first.offset, end=first.end, detail=detail, edits=edits, is_certain=is_certain)


def dos_line_ends(context: Context) -> Iterator[Hit]:
    """Yield the first line of those that end as on Windows, with all of their ends.

    No row: the parts of a file have no line ends.
    """
    returns = context.source.carriage_returns
    if returns:
        start = context.source.text.rfind("\n", 0, returns[0]) + 1
        edits = tuple((place, place + 1, "") for place in returns)
        yield Hit(offset=start, end=returns[0], detail=f"{len(returns)} of them", edits=edits)


def output_folders(context: Context) -> Iterator[Hit]:
    """Yield folders of the job's output that Slurm does not make, one finding a folder.

    No row: the disk is asked.
    """
    submits = any(part.name == "sbatch" and re.search(r"\$\{?(0|BASH_SOURCE)", part.text) for part in context.commands)
    if submits and any(part.name == "mkdir" for part in context.commands):  # when it is started by hand
        return
    reported = set()
    for part in context.source.of("directive", "output", "error"):
        folder, _, name = part.text.removeprefix("./").rpartition("/")
        named = re.search(rf"^[ \t]*#.*\bmkdir\b.*{re.escape(folder)}", context.source.text, re.MULTILINE)
        is_there = folder in ("", ".", "..") or folder[0] in ("/", "~", "$", OUTER) or context.has_folder(folder)
        if not named and not is_there and folder not in reported:
            reported.add(folder)
            known, number, rest = folder.partition("%")  # nobody can make the folder of a job's number before it
            renamed = f"#SBATCH --{part.name}={known}{number}{rest.replace('/', '-')}-{name}" if number else ""
            made = f"mkdir -p {known.rstrip('/')}  # where you submit, before sbatch" if known else ""
            yield at(part, fix=", ".join(filter(None, (renamed, made))))


def world_size(context: Context) -> Iterator[Hit]:
    """Yield a WORLD_SIZE that is not the number of tasks, where these are known and no launcher sets its own.

    No row: the value is computed, and compared with every step's.
    """
    shape = context.shape
    tasks = shape.nodes * shape.tasks if shape.nodes and shape.tasks else None
    own = [launch.shape for launch in context.launches if launch.step is not None]
    if any(launch.program != PYTHON for launch in context.launches) or not own:
        return
    for part in context.source.of("variable", "WORLD_SIZE"):
        if part.exported or part.scope == STEP:
            if re.search(r"SLURM_CPUS", part.text):
                yield at(part)
            number = context.values.number(part.text.replace(OUTER, "$"))
            counts = {other.nodes * other.tasks for other in own if other.nodes and other.tasks}
            spawned = (shape.nodes or 1) * (shape.gpus or 1)  # by the program itself
            if number is not None and tasks is not None and counts == {tasks} and number not in (tasks, spawned):
                yield at(part, f"it is {number}, and srun starts {tasks}")


def required_options(context: Context) -> Iterator[Hit]:
    """Yield options that jobs of the system that was named need.

    No row: the system's file names them.
    """
    first = next(context.source.of("directive"), None)
    for name in context.required:
        if first is not None and name not in context.shape.requested:
            yield at(first, f"--{name}", f"#SBATCH --{name}=NAME")


def issued_tokens(context: Context) -> Iterator[Hit]:
    """Yield tokens in the form that who issues them gives them, but for placeholders.

    No row: the forms are knowledge of its own, which doctor hides too.
    """
    for part in context.source.of("line"):
        for start, end in tokens().places(part.text):
            if "xxxxxxxx" not in part.text[start:end].lower():
                yield Hit(offset=part.offset + start, end=part.offset + end)


Finder = Callable[[Context], Iterator[Hit]]


def _of_tuning(search: tuned.Search) -> Finder:
    def find(context: Context) -> Iterator[Hit]:
        settings = context.knowledge()
        is_known = settings is not None and "fabric" in settings.known
        for found in search(context.source, context.knowledge):
            yield replace(found, is_certain=is_known)

    return find


_SEARCHES: Sequence[Finder] = (
    idle_gpus, local_rank_of_one_gpu, node_alone, ends_at_once, lost_exit_code,
    no_shebang, options_as_comments, late_options, dos_line_ends, output_folders, world_size, required_options,
    issued_tokens,
)  # fmt: skip
_OF_TUNING: Mapping[str, tuned.Search] = {
    "value": tuned.other_value, "unset": tuned.must_be_unset, "missing": tuned.missing,
    "conflict": tuned.conflicting, "guard": tuned.unguarded, "need": tuned.needed,
}  # fmt: skip
FINDERS: Mapping[str, Finder] = {
    **{search.__name__.replace("_", "-"): search for search in _SEARCHES},
    **{f"tuned-{name}": _of_tuning(search) for name, search in _OF_TUNING.items()},
}
"""The searches that a rule can name, by their names."""

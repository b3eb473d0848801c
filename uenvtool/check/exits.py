"""Finders for exit codes that are lost, and for programs that a script does not wait for."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.check.context import Context
from uenvtool.check.launch import Launch
from uenvtool.check.launchers import PYTHON, SRUN, STARTERS, TRAINING, programs
from uenvtool.check.parts import BATCH, Hit, Part, Path, at, fork
from uenvtool.check.script import function_name
from uenvtool.check.shell import AND, FUNCTION, LOOP
from uenvtool.core.words import grouped

_QUIET = re.compile(
    r"export|echo|printf|set|shopt|ulimit|umask|cd|mkdir|module|ml|date|hostname|source|\.|declare|local|unset|let|exit|:"
    r"|true|disown|ls|rm|touch|scontrol|squeue|sacct"
)
"""Commands that neither run a training program nor wait for one."""


def ends_at_once(context: Context) -> Iterator[Hit]:
    """Yield the last program in the background if the script ends without waiting for it."""
    others = (part for part in context.commands if part.background and part.scope == BATCH and _starts_tasks(part))
    starts = [*_in_background(context), *others]
    started = max(_at_calls(context, starts), key=lambda part: part.offset, default=None)
    if started is None or FUNCTION in started.around:
        return
    later = (part for part in context.commands if part.offset >= started.end and part.scope == BATCH)
    later = (part for part in later if not part.background)
    if all(_QUIET.fullmatch(part.name) or _SHORT_SLEEP.match(part.text) or fork(started, part) for part in later):
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
        while depth := fork(part, commands[last]):
            in_branch = in_branch or {
                command.path[:i]: index for index, command in enumerate(commands) for i in range(len(command.path) + 1)
            }
            last = in_branch[part.path[:depth]]
        yield last, part


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

"""Says what starts the ranks of a command: srun for us, torchrun for us, or a launcher that the command brings."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.check.launchers import (
    NONE,
    PYTHON_NAME,
    SRUN,
    STARTERS,
    TORCHRUN,
    alone,
    has_unknown,
    known_launchers,
    launcher_named,
    launcher_of,
    launchers,
    matched,
    option,
    program_name,
    spelled,
)
from uenvtool.core.errors import BadInput, Position

if TYPE_CHECKING:
    from uenvtool.knowledge.launcher import Launcher

MAX_SCRIPT = 1_000_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELLS = ("bash", "sh", "zsh", "dash")
_SHELL_MARKS = re.compile(r"[;&|<>$`(){}*?\n]")
_REFUSED = STARTERS | {"sbatch", "salloc"}
_OF_THE_SHELL = frozenset(("cd", "source", ".", "export", "module", "ml", "set", "unset", "ulimit", "alias", "pushd"))
"""What changes the shell that it is typed in, and does nothing in a process of its own."""
_MODULE = frozenset(("-m", "--module"))
_PROGRAM_OPTIONS = _MODULE | {"--no-python", "--no_python"}


def options_line(launcher: Launcher, ranks: int | str) -> str:
    """Return the options of a launcher for a node of a job, in words of bash."""
    options = (f"--{name}={value}" if value else f"--{name}" for name, value in launcher.options.items())
    return " ".join(options).replace("@RANKS@", str(ranks))


def variables_line(launcher: Launcher, ranks: int | str) -> str:
    """Return what sets the variables of a launcher for a node of a job, in words of bash; empty if it has none."""
    variables = [f"{name}={value}" for name, value in launcher.variables.items()]
    return " ".join(["env", *variables, ""] if variables else ()).replace("@RANKS@", str(ranks))


def _whole_line(launcher: Launcher, ranks: int, command: str = "") -> str:
    """Return a launcher with all that the job gives it, as a user writes it in a script. command: what starts it."""
    words = (variables_line(launcher, ranks).rstrip(), command or launcher.command, options_line(launcher, ranks))
    return " ".join(filter(None, (*words, "...")))


def _own(launcher: Launcher, program: Sequence[str], words: Sequence[str], ranks: int) -> list[str]:
    """Return what a user says that only the job can: options among words, and variables before the program.

    An option is also known by a part of its name, as argparse takes `--nnode` for `--nnodes`.
    """
    known = {spelled(name) for name in (*launcher.options, *launcher.further)} - {*map(spelled, launcher.ranks)}
    options = (word.partition("=")[0] for word in words if word.startswith("--"))
    wanted = {name: value.replace("@RANKS@", str(ranks)) for name, value in launcher.variables.items()}
    given = (word.partition("=") for word in program if "=" in word)
    return [
        *(name for name, _, value in given if wanted.get(name, value) != value),
        *dict.fromkeys(name for name in options if any(one.startswith(spelled(name[2:])) for one in known)),
    ]


def told_ranks(command: Command) -> tuple[str, int]:
    """Return the ranks of a node that the options of a command name, and the option; "" and 0 if they name none."""
    launcher = launcher_named(command.launcher)
    for name in launcher.ranks if launcher else ():
        value = option(command.words, spelled(name)) or ""
        if value.isascii() and value.isdigit():
            return f"-{name}" if len(name) == 1 else f"--{name}", int(value)
    return "", 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What runs: its words, and who starts the ranks.

    launcher: srun, torchrun, none, or one of `launchers()`. program: the words that start the launcher.
    """

    words: tuple[str, ...]
    launcher: str
    program: tuple[str, ...] = ()

    @property
    def once_a_node(self) -> bool:
        """Tell if one process of a node starts the others."""
        return self.launcher != SRUN


def command_of(words: Sequence[str], *, launcher: str, default: str, nodes: int, ranks: int) -> Command:
    """Return what runs for the words of a user. launcher: the one that is named. default: of the runtime.

    Raises BadInput for words that would start a world of their own on each node or rank, with the line that would not.
    """
    words = _split(words)
    start, program, found = _program(words)
    if program in _REFUSED:
        _refuse_starter(program)
    if program in _OF_THE_SHELL:
        raise BadInput(
            f"{program} is a word of the shell, and no program that a job can start",
            hint=f"put the whole line in quotes, as in -- '{program} ... && python train.py'",
        )
    if found is not None:
        return _with_launcher(words, start, found, launcher=launcher, nodes=nodes, ranks=ranks)
    inner = list(_inside(words[start:]))
    if inner:
        place, name, _ = inner[0]
        if name in _REFUSED:
            _refuse_starter(name, place)
        if launcher in (SRUN, TORCHRUN):
            raise BadInput(
                f"{launcher} would start {name} once for each GPU", place, "leave --launcher out: it is run once a node"
            )
        reasons = [_alone(name, rest, by_user=launcher == NONE) for _, name, rest in inner if name in launchers()]
        if nodes > 1 and all(reasons):
            hint = f"{_whole_line(launchers()[name], ranks)}, or put it behind -- itself"
            raise BadInput(f"{reasons[0]}: each node would train by itself", place, hint)
        return Command(words=words, launcher=NONE)
    chosen = launcher or default
    itself = (
        "" if chosen == NONE or PYTHON_NAME.fullmatch(program) else _itself(" ".join((program, *words[start + 1 :])))
    )
    if itself:
        raise BadInput(
            f"{itself} starts the processes of a node itself, and {chosen} would start it once for each GPU",
            hint="--launcher none runs it once a node, with NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT for it",
        )
    if chosen == TORCHRUN:
        return Command(words=torchrun_words(words), launcher=TORCHRUN, program=("torchrun",))
    return Command(words=words, launcher=chosen)


def _itself(line: str) -> str:
    """Return what starts the processes of a node itself and cannot be told of other nodes; empty if a line has none."""
    commands = (command for known in known_launchers().values() if not known.meets for command in known.commands)
    return next((command for command in commands if f"{line} ".startswith(f"{command} ")), "")


def _with_launcher(words: tuple[str, ...], start: int, name: str, *, launcher: str, nodes: int, ranks: int) -> Command:
    """Return a command that brings its launcher: its options stay, those of the rendezvous are the job's."""
    table = launchers()[name]
    end = start + matched(words[start:])[1]
    rest = words[end:]
    if not rest:
        raise BadInput(f"{name} has nothing to start", hint=f"for example -- {table.command} train.py")
    if launcher == SRUN:
        raise BadInput(f"--launcher srun would start {name} once for each GPU", hint="leave --launcher out")
    ends = (i for i, word in enumerate(rest) if word in _MODULE or (word.endswith(".py") and word[0] != "-"))
    options = rest[: next(ends, len(rest))]
    line = _whole_line(table, ranks, " ".join(words[start:end]))
    if launcher == NONE:
        reason = alone(table, options)
        if nodes > 1 and reason:
            raise BadInput(f"{reason}: each node would train by itself", hint=line)
        return Command(words=words, launcher=NONE)
    own = _own(table, words[:end], options, ranks)
    if own:
        them = "them" if own[1:] else "it"
        raise BadInput(
            f"{', '.join(own)} of {name}: the job has its own for each node",
            hint=f"leave {them} out; or --launcher none, and in a script of yours: {line}",
        )
    return Command(words=rest, launcher=name, program=words[:end])


def _refuse_starter(program: str, place: Position | None = None) -> None:
    if program in ("mpirun", "mpiexec"):
        hint = f"leave {program} and its options out: srun starts one rank for each GPU"
        raise BadInput(f"{program} in each task of the job would start a world of its own", place, hint)
    raise BadInput(
        f"the job itself is what {program} starts",
        place,
        f"leave {program} and its options out, or submit yours as it is",
    )


def _split(words: Sequence[str]) -> tuple[str, ...]:
    if len(words) == 1 and re.search(r"\s", words[0].strip()) and not os.path.exists(words[0]):
        if _SHELL_MARKS.search(words[0]):
            return ("bash", "-c", words[0])
        try:
            words = shlex.split(words[0])
        except ValueError:
            return ("bash", "-c", words[0])
    return ("env", *words) if words and _ASSIGNMENT.match(words[0]) else tuple(words)


def _program(words: Sequence[str]) -> tuple[int, str, str | None]:
    """Return where the program stands behind env and assignments, its name, and the launcher that it is.

    A launcher also stands behind what starts it, as in `uv run torchrun train.py`, if it has a program.
    """
    start = 0
    while start < len(words) - 1 and (
        program_name(words[start]) in ("env", "time", "exec") or _ASSIGNMENT.match(words[start])
    ):
        start += 1
    for i in range(start, len(words)):
        found = launcher_of(words[i:])
        is_started = i == start or "run" in words[start:i]  # by `uv run`, `conda run`
        if found and (is_started or any(word.endswith(".py") or word in _PROGRAM_OPTIONS for word in words[i:])):
            return i, program_name(words[i]), found
        if words[i].endswith(".py") or PYTHON_NAME.fullmatch(program_name(words[i])):
            break
    return start, program_name(words[start]), None


def _alone(name: str, words: Sequence[str], *, by_user: bool) -> str:
    """Return what keeps a node from the others; by_user: a variable or a file may have their address."""
    may_know = by_user and (has_unknown(words) or option(words, "config_file") is not None)
    return "" if may_know else alone(launchers()[name], words)


def _inside(words: Sequence[str]) -> Iterator[tuple[Position, str, tuple[str, ...]]]:
    """Yield the launchers that a shell script or `bash -c` starts: the place, the name, and the words behind."""
    name = program_name(words[0])
    arguments = [word for word in words[1:] if not word.startswith("-")]
    if name in _SHELLS and len(words) > 2 and re.fullmatch(r"-[a-z]*c", words[1]):
        shown, script = "-c", words[2]
    else:
        file = arguments[0] if name in _SHELLS and arguments else words[0]
        if not (file.endswith((".sh", ".bash")) or name in _SHELLS) or not Path(file).is_file():
            return
        from uenvtool.core.files import read_named

        shown, script = file, read_named(Path(file), MAX_SCRIPT).decode("utf-8", "replace")
    from uenvtool.check.script import read_script
    from uenvtool.check.values import Values
    from uenvtool.check.words import commands, spelling

    values = Values(read_script(script, shown))
    for command in commands(script):
        spelled = values.expanded([spelling(script, word) for word in command.words])
        if not spelled:
            continue
        start, program, launcher = _program(spelled)
        if launcher or program in _REFUSED:
            line = script.count("\n", 0, command.words[0][0].start) + 1
            yield Position(shown, line), launcher or program, spelled[start:]


def torchrun_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return what torchrun takes in place of a command: a script, a module, or a program with --no-python."""
    if PYTHON_NAME.fullmatch(program_name(words[0])) and len(words) > 1:
        if words[1] == "-m" or not words[1].startswith("-"):
            return tuple(words[1:])
    elif words[0].endswith(".py"):
        return tuple(words)
    return ("--no-python", *words)

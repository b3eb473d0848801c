"""Interprets the user's command: its program, its launcher, and the launchers that its shell script starts."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from uenvtool.check.launchers import (
    NONE,
    OF_RANK,
    PYTHON_NAME,
    SRUN,
    STARTERS,
    TORCHRUN,
    launcher_named,
    matched,
    of_one_node,
    option,
    program_name,
    spelled,
)
from uenvtool.check.script import read_script
from uenvtool.check.shell import commands
from uenvtool.check.values import Values
from uenvtool.core import quoting
from uenvtool.core.errors import Position
from uenvtool.core.limits import limited
from uenvtool.core.options import given
from uenvtool.job.disk import text_of
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.launcher import Launcher, Strategy
from uenvtool.knowledge.secrets import storable

SUBMITTERS = STARTERS | {"sbatch", "salloc"}
"""Programs that start ranks or submit jobs. The command of a job must not contain them."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELLS = ("bash", "sh", "zsh", "dash")
_RUNNER = re.compile(r"(?:env .*?)?(?:\S*/)?((?:uv|poetry|pdm|pixi|hatch|pipenv|rye|conda|mamba|micromamba) run) ")
_SHELL_MARKS = re.compile(r"[;&|<>$`(){}*?\n]")
_MODULE = frozenset(("-m", "--module"))
_MODULE_OPTION = re.compile(r"-[a-zA-Z]*m|--module")
_PROGRAM_OPTIONS = _MODULE | {"--no-python", "--no_python"}


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCommand:
    """The command that a job runs, and the launcher of its ranks.

    words: the arguments after the launcher, or the whole command. launcher: srun, torchrun, none, or one of
    `launchers()`. program: the part of the command that starts the launcher.
    """

    words: tuple[str, ...]
    launcher: str
    program: tuple[str, ...] = ()

    @property
    def once_per_node(self) -> bool:
        """Return whether the command runs once per node and starts the ranks of the node itself."""
        return self.launcher != SRUN

    @property
    def ranks_option(self) -> tuple[str, int]:
        """Return the option that sets the ranks per node, and their number, or "" and 0 without such an option."""
        launcher = launcher_named(self.launcher)
        for name in launcher.ranks if launcher else ():
            value = option(self.words, spelled(name)) or ""
            if value.isascii() and value.isdigit():
                return f"-{name}" if len(name) == 1 else f"--{name}", int(value)
        return "", 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A launcher or submitter that a shell script starts, with its position and its arguments."""

    place: Position
    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Typed:
    """The parsed command of the user.

    words: its arguments; a command in a single argument is split, or passed to bash. start: the index of the program,
    after env and assignments. program: its name. launcher: the launcher that the command starts; empty if there is
    none. end: the index after the launcher's name. script: the text of the shell script that the command runs, or "".
    inner: the launchers and submitters in that script. alone: the server or launcher that the command starts and that
    supports only one node, or "". serves: whether it is a server.
    """

    words: tuple[str, ...]
    start: int
    program: str
    launcher: str = ""
    end: int = 0
    script: str = ""
    inner: tuple[Started, ...] = ()
    alone: str = ""
    serves: bool = False

    @property
    def rest(self) -> tuple[str, ...]:
        """Return the arguments after the launcher: the launcher's options and the program that it starts."""
        return self.words[self.end :]

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of the launcher, which come before the program that it starts."""
        ends = (i for i, word in enumerate(self.rest) if word in _MODULE or (word.endswith(".py") and word[0] != "-"))
        return self.rest[: next(ends, len(self.rest))]

    @property
    def runner(self) -> str:
        """Return the first words of the command, such as `uv run`, if they start a Python of another environment."""
        match = _RUNNER.match(" ".join(self.words))
        return match[1] if match else ""

    @property
    def named(self) -> str:
        """Return the name of the training program: a script without its suffix, a Python module, or the program."""
        scripts = (word for word in self.words if word.endswith((".py", ".sh")) and not word.startswith("-"))
        if script := next(scripts, ""):
            return program_name(script).split()[-1][: -len(".py")]
        for i, word in enumerate(self.words[:-1]):
            has_python = any(PYTHON_NAME.fullmatch(program_name(before)) for before in self.words[:i])
            if _MODULE_OPTION.fullmatch(word) and (self.launcher or has_python):
                return self.words[i + 1]
        if self.launcher:
            started_program = program_name(next((word for word in self.rest if not word.startswith("-")), ""))
            if started_program and "." not in started_program:
                return started_program
        return self.program


def read_words(words: Sequence[str], folder: str) -> Typed:
    """Return the parsed command of a user. folder: the directory in which the command runs."""
    words = _split(words)
    start, launcher = _program(words)
    program = program_name(words[start])
    if launcher:
        return Typed(
            words=words, start=start, program=program, launcher=launcher, end=start + matched(words[start:])[1]
        )
    alone, launcher_alone, _ = of_one_node(words[start:])
    script_name, script = _script(words[start:], folder)
    with limited(script_name):
        inner = tuple(_inside(script_name, script))
    return Typed(
        words=words,
        start=start,
        program=program,
        script=script,
        inner=inner,
        alone=alone,
        serves=launcher_alone is not None and launcher_alone.server,
    )


def command_of(typed: Typed, asked: str, default: str) -> JobCommand:
    """Return the command of a job. asked: the requested launcher, or empty. default: the launcher of the runtime."""
    if typed.launcher and asked != NONE:
        return JobCommand(words=typed.rest, launcher=typed.launcher, program=typed.words[: typed.end])
    launcher = NONE if typed.launcher or typed.inner else asked or default
    if launcher == TORCHRUN:
        return JobCommand(words=_torchrun_words(typed.words), launcher=TORCHRUN, program=("torchrun",))
    return JobCommand(words=typed.words, launcher=launcher)


def with_strategy(command: JobCommand, typed: Typed, ranks: int, *, has_gpus: bool) -> JobCommand:
    """Return the command with the option that makes its launcher start all ranks, even if torch sees fewer GPUs."""
    launcher = launcher_named(command.launcher)
    strategy = launcher.strategy if launcher else None
    if strategy is None or ranks < 2:
        return command
    is_given = _is_strategy_given(strategy, typed)
    variables = () if has_gpus else tuple(f"{name}={value}" for name, value in strategy.without_gpu.items())
    return replace(
        command,
        words=command.words if is_given else (f"--{strategy.option}", *command.words),
        program=("env", *variables, *command.program) if variables else command.program,
    )


def _is_strategy_given(strategy: Strategy, typed: Typed) -> bool:
    names = (spelled(name) for name in (strategy.option, *strategy.instead))
    if option(typed.options, *names) is not None:
        return True
    if strategy.config is None:
        return False
    named = option(typed.options, spelled(strategy.config.option))
    path = named or os.path.expanduser(f"~/{strategy.config.file}")
    if not os.path.exists(path):
        return named is not None  # a file that the user names may exist only on the compute nodes
    return bool(strategy.config.says.search(text_of(path)))


def again(request: JobRequest, system: str) -> str:
    """Return the command line that writes a job on any machine. system: the name of the job's system."""
    portable = replace(request, system=system, submit=False, dry_run=False, force=False)
    if request.tests:
        portable = replace(portable, launcher=None, name="", output=None, words=())
    words = [
        "uenvtool",
        "try" if request.tests else "job",
        *given(portable),
        *(["--", *portable.words] if portable.words else []),
    ]
    return " ".join(map(quoting.bash_line, storable(words)))


def options_line(launcher: Launcher, ranks: int | str) -> str:
    """Return the options of a launcher on a node of a job, as bash source."""
    options = (f"--{name}={value}" if value else f"--{name}" for name, value in launcher.options.items())
    return " ".join(options).replace("@RANKS@", str(ranks))


def variables_line(launcher: Launcher, ranks: int | str) -> str:
    """Return an `env` command that sets a launcher's variables, as bash source, or an empty string if it has none."""
    variables = [f"{name}={value}" for name, value in launcher.variables.items()]
    return " ".join(["env", *variables, ""] if variables else ()).replace("@RANKS@", str(ranks))


def whole_line(launcher: Launcher, ranks: int, command: str = "") -> str:
    """Return the full launch command, including the job's variables and options, for use in a hint.

    command: the program to start.
    """
    strategy = f"--{launcher.strategy.option}" if launcher.strategy else ""
    parts = (
        variables_line(launcher, ranks).rstrip(),
        command or launcher.command,
        options_line(launcher, ranks),
        strategy,
    )
    return " ".join(filter(None, (*parts, "...")))


def given_by_job(launcher: Launcher, typed: Typed, ranks: int) -> list[str]:
    """Return the options and variables in a user's command that only the job can set for its launcher.

    Abbreviated options are included, because argparse accepts `--nnode` for `--nnodes`.
    """
    known = {spelled(name) for name in (*launcher.options, *launcher.further)} - {*map(spelled, launcher.ranks)}
    options = (word.partition("=")[0] for word in typed.options if word.startswith("--"))
    job_values = {name: value.replace("@RANKS@", str(ranks)) for name, value in launcher.variables.items()}
    assignments = (word.partition("=") for word in typed.words[: typed.end] if "=" in word)
    return [
        *(name for name, _, value in assignments if job_values.get(name, value) != value),
        *dict.fromkeys(name for name in options if any(option.startswith(spelled(name[2:])) for option in known)),
    ]


def _split(words: Sequence[str]) -> tuple[str, ...]:
    if len(words) == 1 and re.search(r"\s", words[0].strip()) and not os.path.exists(words[0]):
        if _SHELL_MARKS.search(words[0]):
            return ("bash", "-c", words[0])
        try:
            words = shlex.split(words[0])
        except ValueError:
            return ("bash", "-c", words[0])
    return ("env", *words) if words and _ASSIGNMENT.match(words[0]) else tuple(words)


def _program(words: Sequence[str]) -> tuple[int, str]:
    """Return the index of the program, and its launcher or "". A launcher may follow `uv run` or `conda run`."""
    start = 0
    while start < len(words) - 1 and (
        program_name(words[start]) in ("env", "time", "exec") or _ASSIGNMENT.match(words[start])
    ):
        start += 1
    for i in range(start, len(words)):
        launcher, _ = matched(words[i:])
        is_started = i == start or "run" in words[start:i]  # by `uv run`, `conda run`
        if launcher and (is_started or any(word.endswith(".py") or word in _PROGRAM_OPTIONS for word in words[i:])):
            return i, launcher
        if words[i].endswith(".py") or PYTHON_NAME.fullmatch(program_name(words[i])):
            break
    return start, ""


def is_inline(words: Sequence[str]) -> bool:
    """Return whether a command is `bash -c SCRIPT` or the same with another shell."""
    return program_name(words[0]) in _SHELLS and len(words) > 2 and re.fullmatch(r"-[a-z]*c", words[1]) is not None


def _script(words: Sequence[str], folder: str) -> tuple[str, str]:
    """Return the path of the shell script that a command runs, and its text, which is "" without such a script."""
    if is_inline(words):
        return "-c", words[2]
    is_shell = program_name(words[0]) in _SHELLS
    arguments = (word for word in words[1:] if not word.startswith("-"))
    path = os.path.join(folder, next(arguments, words[0]) if is_shell else words[0])
    return path, text_of(path) if is_shell or path.endswith((".sh", ".bash")) else ""


def _inside(name: str, script: str) -> Iterator[Started]:
    if not script:
        return
    differs = OF_RANK.search(script)
    values = Values(read_script(script, name).of("variable"))
    for command in commands(script):
        spelled_words = values.expanded(command.spellings)
        if not spelled_words:
            continue
        start, launcher = _program(spelled_words)
        alone = "" if launcher or differs else of_one_node(spelled_words[start:])[0]
        program = launcher or alone or program_name(spelled_words[start])
        if launcher or alone or program in SUBMITTERS:
            line = script.count("\n", 0, command.words[0][0].start) + 1
            yield Started(place=Position(name, line), name=program, words=spelled_words[start:])


def _torchrun_words(words: Sequence[str]) -> tuple[str, ...]:
    if PYTHON_NAME.fullmatch(program_name(words[0])) and len(words) > 1:
        if words[1] == "-m" or not words[1].startswith("-"):
            return tuple(words[1:])
    elif words[0].endswith(".py"):
        return tuple(words)
    return ("--no-python", *words)

"""Says what starts the ranks of a command: srun for us, torchrun for us, or a launcher that the command brings."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import read_named
from uenvtool.core.value import value_class
from uenvtool.job.check.words import commands, spelling
from uenvtool.job.request import NONE, SRUN, TORCHRUN

MAX_SCRIPT = 1_000_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
PYTHON_NAME = re.compile(r"python(3(\.\d+)?)?")
_SHELLS = ("bash", "sh", "zsh", "dash")
_SHELL_MARKS = re.compile(r"[;&|<>$`(){}*?\n]")
STARTERS = frozenset(("srun", "mpirun", "mpiexec", "jsrun", "aprun", "flux"))
"""What starts programs on the nodes of a job."""
_REFUSED = STARTERS | {"sbatch", "salloc"}


@value_class(kw_only=False)
class Launcher:
    """A program that starts the ranks of a node.

    modules: what `python -m` starts it by. rendezvous: the options by which the launchers of several nodes meet, with
    the values that a job has for them; @RANKS@: ranks of a node. own: further options that only the job can give.
    ranks: the option that says how many a node has. logs: those that keep a log for each rank, and show whole lines.
    """

    words: tuple[str, ...]
    modules: tuple[str, ...]
    rendezvous: Mapping[str, str]
    own: tuple[str, ...] = ()
    ranks: str = ""
    logs: str = ""

    def line(self, ranks: int | str) -> str:
        """Return its options for a node of a job, in words of bash."""
        return " ".join(
            f"--{name}={value}" if value else f"--{name}" for name, value in self.rendezvous.items()
        ).replace("@RANKS@", str(ranks))

    def knows(self, words: Sequence[str]) -> str:
        """Return the first option in words that says where the other nodes are; empty if there is none."""
        known = {name.replace("_", "-") for name in (*self.rendezvous, *self.own)} - {self.ranks}
        for word in words:
            if word.startswith("--") and word[2:].partition("=")[0].replace("_", "-") in known:
                return word.partition("=")[0]
        return ""


LAUNCHERS = {
    TORCHRUN: Launcher(
        words=("torchrun",),
        modules=("torch.distributed.run", "torch.distributed.launch"),
        rendezvous={
            "nnodes": '"$NNODES"',
            "nproc-per-node": "@RANKS@",
            "rdzv-backend": "c10d",
            "rdzv-id": '"$SLURM_JOB_ID"',
            "rdzv-endpoint": '"$MASTER_ADDR:$MASTER_PORT"',
        },
        own=("node-rank", "master-addr", "master-port", "standalone", "rdzv-conf"),
        ranks="nproc-per-node",
        logs='--log-dir="$LOGS" --tee=3',
    ),
    "accelerate": Launcher(
        words=("accelerate", "launch"),
        modules=("accelerate.commands.launch",),
        rendezvous={
            "num_machines": '"$NNODES"',
            "machine_rank": '"$NODE_RANK"',
            "num_processes": "$((NNODES * @RANKS@))",
            "main_process_ip": '"$MASTER_ADDR"',
            "main_process_port": '"$MASTER_PORT"',
        },
        logs='--log_dir="$LOGS" --tee=3',
    ),
    "deepspeed": Launcher(
        words=("deepspeed",),
        modules=("deepspeed.launcher.runner",),
        rendezvous={
            "hostfile": '"$LOGS/hostfile"',
            "no_ssh": "",
            "node_rank": '"$NODE_RANK"',
            "master_addr": '"$MASTER_ADDR"',
            "master_port": '"$MASTER_PORT"',
        },
        own=("num-nodes", "num-gpus", "launcher", "include", "exclude"),
    ),
}


@value_class
class Command:
    """What runs: its words, and who starts the ranks.

    launcher: srun, torchrun, none, or a launcher of the table. program: the words that start the launcher.
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
    if found is not None:
        return _with_launcher(words, start, found, launcher=launcher, nodes=nodes, ranks=ranks)
    inner = next(_inside(words[start:]), None)
    if inner is not None:
        place, name, rest = inner
        if name in _REFUSED:
            _refuse_starter(name, place)
        if launcher in (SRUN, TORCHRUN):
            raise BadInput(
                f"{launcher} would start {name} once for each GPU", place, "leave --launcher out: it is run once a node"
            )
        if nodes > 1 and not LAUNCHERS[name].knows(rest):
            hint = f"{' '.join(LAUNCHERS[name].words)} {LAUNCHERS[name].line(ranks)} ..., or put it behind -- itself"
            raise BadInput(f"{name} gets no address of the other nodes: each node would train by itself", place, hint)
        return Command(words=words, launcher=NONE)
    chosen = launcher or default
    if chosen == TORCHRUN:
        return Command(words=torchrun_words(words), launcher=TORCHRUN, program=("torchrun",))
    return Command(words=words, launcher=chosen)


def _with_launcher(words: tuple[str, ...], start: int, name: str, *, launcher: str, nodes: int, ranks: int) -> Command:
    """Return a command that brings its launcher: its options stay, those of the rendezvous are the job's."""
    table = LAUNCHERS[name]
    end = start + (3 if PYTHON_NAME.fullmatch(_base(words[start])) else len(table.words))
    rest = words[end:]
    line = f"{' '.join(table.words)} {table.line(ranks)} ..."
    if not rest:
        raise BadInput(f"{name} has nothing to start", hint=f"for example -- {' '.join(table.words)} train.py")
    if launcher == SRUN:
        raise BadInput(f"--launcher srun would start {name} once for each GPU", hint="leave --launcher out")
    options = rest[
        : next((i for i, word in enumerate(rest) if not word.startswith("-") and word.endswith(".py")), len(rest))
    ]
    if launcher == NONE:
        if nodes > 1 and not table.knows(options):
            raise BadInput(f"{name} gets no address of the other nodes: each node would train by itself", hint=line)
        return Command(words=words, launcher=NONE)
    own = table.knows(options)
    if own:
        raise BadInput(
            f"{own} of {name} is the job's own: it has one for each node",
            hint=f"leave it out; or --launcher none, and in a script of yours: {line}",
        )
    return Command(words=rest, launcher=name, program=words[:end])


def _refuse_starter(program: str, place: Position | None = None) -> None:
    """Raise BadInput for a program that starts ranks on the nodes itself."""
    if program in ("mpirun", "mpiexec"):
        hint = f"leave {program} and its options out: srun starts one rank for each GPU"
        raise BadInput(f"{program} in each task of the job would start a world of its own", place, hint)
    raise BadInput(
        f"the job itself is what {program} starts",
        place,
        f"leave {program} and its options out, or submit yours as it is",
    )


def _split(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words, with a whole command line in one word taken apart, and assignments before it given to env."""
    if len(words) == 1 and re.search(r"\s", words[0].strip()) and not os.path.exists(words[0]):
        if _SHELL_MARKS.search(words[0]):
            return ("bash", "-c", words[0])
        try:
            words = shlex.split(words[0])
        except ValueError:
            return ("bash", "-c", words[0])
    return ("env", *words) if words and _ASSIGNMENT.match(words[0]) else tuple(words)


def _program(words: Sequence[str]) -> tuple[int, str, str | None]:
    """Return where the program stands behind env and assignments, its name, and the launcher that it is."""
    start = 0
    while start < len(words) - 1 and (
        _base(words[start]) in ("env", "time", "exec") or _ASSIGNMENT.match(words[start])
    ):
        start += 1
    return start, _base(words[start]), launcher_of(words[start:])


def launcher_of(words: Sequence[str]) -> str | None:
    """Return the launcher that words start; None if they start none."""
    name, rest = _base(words[0]), tuple(words[1:])
    for launcher, table in LAUNCHERS.items():
        if (name, *rest)[: len(table.words)] == table.words:
            return launcher
        if PYTHON_NAME.fullmatch(name) and rest[:1] == ("-m",) and rest[1:2] and rest[1] in table.modules:
            return launcher
    return None


def _inside(words: Sequence[str]) -> Iterator[tuple[Position, str, tuple[str, ...]]]:
    """Yield the launchers that a shell script or `bash -c` starts: the place, the name, and the words behind."""
    name = _base(words[0])
    arguments = [word for word in words[1:] if not word.startswith("-")]
    if name in _SHELLS and len(words) > 2 and re.fullmatch(r"-[a-z]*c", words[1]):
        shown, script = "-c", words[2]
    else:
        file = arguments[0] if name in _SHELLS and arguments else words[0]
        if not (file.endswith((".sh", ".bash")) or name in _SHELLS) or not Path(file).is_file():
            return
        shown, script = file, read_named(Path(file), MAX_SCRIPT).decode("utf-8", "replace")
    for command in commands(script):
        spelled = tuple(spelling(script, word) for word in command.words)
        if not spelled:
            continue
        start, program, launcher = _program(spelled)
        if launcher or program in _REFUSED:
            line = script.count("\n", 0, command.words[0][0].start) + 1
            yield Position(shown, line), launcher or program, spelled[start:]


def torchrun_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return what torchrun takes in place of a command: a script, a module, or a program with --no-python."""
    if PYTHON_NAME.fullmatch(_base(words[0])) and len(words) > 1:
        if words[1] == "-m" or not words[1].startswith("-"):
            return tuple(words[1:])
    elif words[0].endswith(".py"):
        return tuple(words)
    return ("--no-python", *words)


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]

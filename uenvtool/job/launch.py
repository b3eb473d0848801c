"""Says what starts the ranks of a command: srun for us, torchrun for us, or a launcher that the command brings."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.value import value_class
from uenvtool.job.request import NONE, SRUN, TORCHRUN

MAX_SCRIPT = 1_000_000
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
PYTHON_NAME = re.compile(r"python(3(\.\d+)?)?")
_SHELLS = ("bash", "sh", "zsh", "dash")
_SHELL_MARKS = re.compile(r"[;&|<>$`(){}*?\n]")
STARTERS = frozenset(("srun", "mpirun", "mpiexec", "jsrun", "aprun", "flux"))
"""What starts programs on the nodes of a job."""
_REFUSED = STARTERS | {"sbatch", "salloc"}
_BY_ITSELF = frozenset(("tune run", "llamafactory-cli train", "axolotl train", "fabric run", "horovodrun"))
"""What starts a rank for each GPU, but takes no options that this file has (seen in the source of each)."""
_PROGRAM_OPTIONS = frozenset(("-m", "--module", "--no-python", "--no_python"))
_THIS_NODE = re.compile(r"(localhost|127\.0\.0\.1)(:.*)?")


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

    def alone(self, words: Sequence[str]) -> str:
        """Return what keeps a node from the others, in words with its options; empty if it has their address."""
        name = " ".join(self.words)
        if "--standalone" in words:
            return f"--standalone of {name} is for one node"
        nodes = option(words, "nnodes", "num_machines", "num_nodes")
        if nodes in ("1", "1:1"):
            return f"{name} is told of one node"
        address = option(words, "rdzv_endpoint", "master_addr", "main_process_ip", "hostfile")
        if address and _THIS_NODE.fullmatch(address):
            return f"{address} is the address of each node itself"
        if address and nodes is None and "nnodes" in self.rendezvous:  # the others have a hostfile, or a file of theirs
            return f"{name} is for one node without --nnodes"
        return "" if address else f"{name} gets no address of the other nodes"


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
    inner = list(_inside(words[start:]))
    if inner:
        place, name, _ = inner[0]
        if name in _REFUSED:
            _refuse_starter(name, place)
        if launcher in (SRUN, TORCHRUN):
            raise BadInput(
                f"{launcher} would start {name} once for each GPU", place, "leave --launcher out: it is run once a node"
            )
        alone = [_alone(name, rest, by_user=launcher == NONE) for _, name, rest in inner if name in LAUNCHERS]
        if nodes > 1 and all(alone):
            hint = f"{' '.join(LAUNCHERS[name].words)} {LAUNCHERS[name].line(ranks)} ..., or put it behind -- itself"
            raise BadInput(f"{alone[0]}: each node would train by itself", place, hint)
        return Command(words=words, launcher=NONE)
    chosen = launcher or default
    itself = {program, " ".join((program, *words[start + 1 : start + 2]))} & _BY_ITSELF
    if itself and chosen != NONE:
        raise BadInput(
            f"{itself.pop()} starts a rank for each GPU itself, and {chosen} would start it once for each GPU",
            hint="--launcher none runs it once a node, with NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT for it",
        )
    if chosen == TORCHRUN:
        return Command(words=torchrun_words(words), launcher=TORCHRUN, program=("torchrun",))
    return Command(words=words, launcher=chosen)


def _with_launcher(words: tuple[str, ...], start: int, name: str, *, launcher: str, nodes: int, ranks: int) -> Command:
    """Return a command that brings its launcher: its options stay, those of the rendezvous are the job's."""
    table = LAUNCHERS[name]
    is_module = PYTHON_NAME.fullmatch(_base(words[start]))
    end = start + (behind_python(words[start:]) + 2 if is_module else len(table.words))
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
        alone = table.alone(options)
        if nodes > 1 and alone:
            raise BadInput(f"{alone}: each node would train by itself", hint=line)
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
    """Return where the program stands behind env and assignments, its name, and the launcher that it is.

    A launcher also stands behind what starts it, as in `uv run torchrun train.py`, if it has a program.
    """
    start = 0
    while start < len(words) - 1 and (
        _base(words[start]) in ("env", "time", "exec") or _ASSIGNMENT.match(words[start])
    ):
        start += 1
    for i in range(start, len(words)):
        found = launcher_of(words[i:])
        if found and (i == start or any(word.endswith(".py") or word in _PROGRAM_OPTIONS for word in words[i:])):
            return i, _base(words[i]), found
        if words[i].endswith(".py") or PYTHON_NAME.fullmatch(_base(words[i])):
            break
    return start, _base(words[start]), None


def launcher_of(words: Sequence[str]) -> str | None:
    """Return the launcher that words start; None if they start none."""
    name = _base(words[0])
    at = behind_python(words) if PYTHON_NAME.fullmatch(name) else len(words)
    module = words[at + 1] if at + 1 < len(words) and words[at].endswith("m") else None
    for launcher, table in LAUNCHERS.items():
        if (name, *words[1 : len(table.words)]) == table.words or module in table.modules:
            return launcher
    return None


def behind_python(words: Sequence[str]) -> int:
    """Return the index of what a Python at the start of words runs, behind its options: a file, -m or -c."""
    i = 1
    while i < len(words) and words[i].startswith("-") and not re.fullmatch(r"-[a-zA-Z]*[mc]", words[i]):
        i += 2 if words[i] in ("-X", "-W") else 1
    return i


def option(words: Sequence[str], *names: str) -> str | None:
    """Return the value of an option of a launcher; `-` and `_` are one to them."""
    for i, word in enumerate(words):
        name, given, value = word.partition("=")
        if name.startswith("--") and name[2:].replace("-", "_") in names:
            return value if given else words[i + 1] if i + 1 < len(words) else ""
        if word.endswith(".py"):
            return None
    return None


def has_unknown(words: Sequence[str]) -> bool:
    """Tell if a word before the program may hold any options: a variable that is no option's value."""
    from uenvtool.job.check.parts import OUTER

    before = ""
    for word in words:
        if word.endswith(".py"):
            return False
        if word.startswith(("$", OUTER)) and (not before.startswith("--") or "=" in before):
            return True
        before = word
    return False


def _alone(name: str, words: Sequence[str], *, by_user: bool) -> str:
    """Return what keeps a node from the others; by_user: a variable or a file may have their address."""
    may_know = by_user and (has_unknown(words) or option(words, "config_file") is not None)
    return "" if may_know else LAUNCHERS[name].alone(words)


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
        from uenvtool.core.files import read_named

        shown, script = file, read_named(Path(file), MAX_SCRIPT).decode("utf-8", "replace")
    from uenvtool.job.check.script import read_script
    from uenvtool.job.check.values import Values
    from uenvtool.job.check.words import commands, spelling

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
    if PYTHON_NAME.fullmatch(_base(words[0])) and len(words) > 1:
        if words[1] == "-m" or not words[1].startswith("-"):
            return tuple(words[1:])
    elif words[0].endswith(".py"):
        return tuple(words)
    return ("--no-python", *words)


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]

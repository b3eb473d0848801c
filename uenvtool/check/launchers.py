"""The known launchers, and functions that read their command lines."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from uenvtool.check.parts import OUTER
from uenvtool.knowledge.launcher import Launcher, all_launchers

SRUN, TORCHRUN, PYTHON, NONE = "srun", "torchrun", "python", "none"
TRAINING, ALONE, SERVER, STARTER = "training", "alone", "server", "starter"
"""The roles of a program in a command line."""
PYTHON_NAME = re.compile(r"python(3(\.\d+)?)?")
MPIRUN = frozenset(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"))
STARTERS = MPIRUN | {"srun", "jsrun", "aprun", "flux"}
"""The programs that start other programs on the nodes of a job."""
NOT_IN_SRUN = STARTERS - {SRUN, "flux"}
"""The starters that each start the ranks of all nodes if srun starts them several times."""
_PYTHON_TARGET = re.compile(rf"-\w*m$|[${OUTER}]|.*\.py$")
OF_RANK = re.compile(r"RANK\b|SLURM_(?:PROCID|LOCALID)\b")
"""A variable that has another value for each rank. With it, the ranks of a command can use different ports."""
_WRAPPERS = frozenset(
    ("numactl", "nsys", "ncu", "timeout", "nice", "stdbuf", "taskset", "strace", "env", "time", "exec")
)
"""Programs that start the program in their arguments."""
_THIS_NODE = re.compile(r"(localhost|127\.0\.0\.1)(:.*)?")


@functools.cache
def launchers() -> dict[str, Launcher]:
    """Return the launchers that accept the address of another node, by name."""
    return {name: launcher for name, launcher in all_launchers().items() if launcher.supports_nodes}


@functools.cache
def option_names(program: str) -> Collection[str]:
    """Return the names of the options that describe the ranks and the other nodes to a launcher, with `_` for `-`."""
    launcher = launchers().get(program)
    names = (*launcher.options, *launcher.further, *launcher.ranks) if launcher else ()
    return frozenset(map(spelled, names))


def launcher_named(name: str) -> Launcher | None:
    """Return the launcher called `name`, or None for `srun` and `none`, which have no file."""
    return None if name in (SRUN, NONE) else launchers().get(name)


@functools.cache
def _commands() -> dict[str, list[tuple[list[str], Launcher]]]:
    """Return the launchers by the first word of each command, and by `-m MODULE`."""
    by_program: dict[str, list[tuple[list[str], Launcher]]] = {}
    for launcher in all_launchers().values():
        for words in map(str.split, launcher.commands):
            by_program.setdefault(words[0], []).append((words, launcher))
        for module in launcher.modules:
            by_program.setdefault(f"-m {module}", []).append(([module], launcher))
    return by_program


def matched(argv: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that a command line starts and the number of words that name the launcher, or "" and 0."""
    launcher, length = _matched(argv)
    return (launcher.name, length) if launcher and launcher.supports_nodes else ("", 0)


def of_one_node(argv: Sequence[str]) -> tuple[str, Launcher | None, int]:
    """Return the server, or the launcher without support for several nodes, that a command line starts.

    The result is its command, such as `vllm serve`, its description and its index, or "", None and 0. It may follow
    `uv run`, `apptainer exec`, `numactl` or a similar program.
    """
    for role, command, index in programs(argv):
        if role in (ALONE, SERVER):
            return command, _matched(argv[index:])[0], index
    return "", None, 0


def programs(argv: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Yield the role, the name and the index of each program that matters in a command line.

    The role of a training program is TRAINING, and its name is the name of its launcher or `python`. The role of a
    server is SERVER, and the role of a launcher for one node is ALONE. The role of a program that starts others on all
    nodes is STARTER.
    """
    is_alone = False
    for i, word in enumerate(argv):
        name = program_name(word)
        is_python = PYTHON_NAME.fullmatch(name) is not None
        launcher, length = _matched(argv[i:]) if is_python or name in _commands() else (None, 0)
        if launcher and launcher.supports_nodes:
            yield TRAINING, launcher.name, i
            return
        is_inside = i > 0 and bool({"run", "exec"} & {*argv[:i]} or program_name(argv[0]) in _WRAPPERS)
        if name in NOT_IN_SRUN:
            if not i or is_inside:
                yield STARTER, name, i
        elif launcher and not is_alone and (not i or length > 1 or is_inside):
            is_alone = True
            yield SERVER if launcher.server else ALONE, " ".join((name, *argv[i + 1 : i + length])), i
        if is_python:
            rest = argv[i + python_target_index(argv[i:]) :]
            if rest and _PYTHON_TARGET.match(rest[0]):
                yield TRAINING, PYTHON, i
            return
        if word.endswith(".py"):
            if not is_alone and (not i or "run" in argv[:i]):  # by `uv run`, or by its first line
                yield TRAINING, PYTHON, i
            return


def _matched(argv: Sequence[str]) -> tuple[Launcher | None, int]:
    name, start = program_name(argv[0]), 0
    if PYTHON_NAME.fullmatch(name):
        at = python_target_index(argv)
        if at + 1 >= len(argv) or not argv[at].endswith("m"):
            return None, 0
        start, name = at + 1, argv[at + 1]
        for _, launcher in _commands().get(f"-m {name}", ()):
            return launcher, start + 1
    for command, launcher in _commands().get(name, ()):
        is_started = not start or not launcher.supports_nodes  # `python -m` starts the servers by their names
        if is_started and list(argv[start + 1 : start + len(command)]) == command[1:]:
            return launcher, start + len(command)
    return None, 0


def python_target_index(argv: Sequence[str]) -> int:
    """Return the index of the script, `-m` or `-c` in a Python command line, after the interpreter options."""
    i = 1
    while i < len(argv) and argv[i].startswith("-") and not re.fullmatch(r"-[a-zA-Z]*[mc]", argv[i]):
        i += 2 if argv[i] in ("-X", "-W") else 1
    return i


def option(argv: Sequence[str], *names: str) -> str | None:
    """Return the value of a launcher's option, or None if the option is not given before the program.

    names: the option's names, with `_` for each `-`. mpirun accepts `-np` and `--np`.
    """
    given = options_before_program(tuple(argv))
    return next((value for name, value in given.items() if _is_option(name, names)), None)


def _is_option(name: str, names: Sequence[str]) -> bool:
    return name in names or (len(name) >= _ABBREVIATED and any(option.startswith(name) for option in names))


_ABBREVIATED = 6
"""The minimum length of an abbreviation, which argparse accepts."""


@functools.lru_cache(maxsize=64)
def options_before_program(argv: tuple[str, ...]) -> Mapping[str, str]:
    """Return the options before the program of a launcher, as `option` reads them, by name."""
    given: dict[str, str] = {}
    for i, word in enumerate(argv):
        if word.startswith("-"):
            name, has_value, value = word.partition("=")
            value = value if has_value else argv[i + 1] if i + 1 < len(argv) else ""
            given.setdefault(spelled(name.lstrip("-")), value)
        if word.endswith(".py"):
            break
    return given


def has_unknown(argv: Sequence[str]) -> bool:
    """Return whether the arguments before the program contain a shell variable that may expand to options."""
    before = ""
    for word in argv:
        if word.endswith(".py"):
            return False
        if word.startswith(("$", OUTER)) and (not before.startswith("--") or "=" in before):
            return True
        before = word
    return False


def isolation_reason(launcher: Launcher, argv: Sequence[str]) -> str:
    """Return the reason why a launcher's arguments keep its node from joining the others, or an empty string."""
    name = launcher.command
    if launcher.variables:
        return ""
    if "--standalone" in argv:
        return f"--standalone of {name} is for one node"
    nodes = option(argv, "nnodes", "num_machines", "num_nodes")
    if nodes in ("1", "1:1"):
        return f"{name} is set to one node"
    address = option(argv, "rdzv_endpoint", "master_addr", "main_process_ip", "main_address", "hostfile", "host")
    if address and _THIS_NODE.fullmatch(address):
        return f"{address} resolves to the local node on every node"
    if address and nodes is None and "nnodes" in launcher.options:  # other launchers have a hostfile or a config file
        return f"{name} starts on one node unless --nnodes is given"
    needs_endpoint = "rdzv-endpoint" in launcher.options  # accelerate makes the endpoint from its own options
    if address and needs_endpoint and option(argv, "rdzv_backend") == "c10d" and not option(argv, "rdzv_endpoint"):
        return f"with --rdzv-backend=c10d, {name} ignores --master-addr. It needs --rdzv-endpoint"
    return "" if address else f"{name} gets no address of the other nodes"


def spelled(name: str) -> str:
    """Return the name of an option with `_` instead of `-`, because argparse accepts both."""
    return name.replace("-", "_")


def program_name(word: str) -> str:
    """Return the name of the program at a path."""
    return word.rsplit("/", 1)[-1]

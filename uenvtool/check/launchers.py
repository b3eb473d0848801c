"""The words that start the ranks of a job: the launchers that are known, and how their options are read."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from uenvtool.check.parts import OUTER
from uenvtool.knowledge.launcher import Launcher, all_launchers

SRUN, TORCHRUN, NONE = "srun", "torchrun", "none"
PYTHON_NAME = re.compile(r"python(3(\.\d+)?)?")
STARTERS = frozenset(("srun", "mpirun", "mpiexec", "jsrun", "aprun", "flux"))
"""What starts programs on the nodes of a job."""
_THIS_NODE = re.compile(r"(localhost|127\.0\.0\.1)(:.*)?")


@functools.cache
def known_launchers() -> dict[str, Launcher]:
    """Return every launcher by its name."""
    return all_launchers()


@functools.cache
def launchers() -> dict[str, Launcher]:
    """Return the launchers that can be told where the other nodes are, by name."""
    return {name: launcher for name, launcher in known_launchers().items() if launcher.supports_nodes}


def launcher_named(name: str) -> Launcher | None:
    """Return the launcher of that name; None for srun and none, for which nothing is read."""
    return None if name in (SRUN, NONE) else launchers().get(name)


@functools.cache
def _commands() -> dict[str, list[tuple[list[str], str]]]:
    found: dict[str, list[tuple[list[str], str]]] = {}
    for name, launcher in launchers().items():
        for words in map(str.split, launcher.commands):
            found.setdefault(words[0], []).append((words, name))
    return found


def launcher_of(words: Sequence[str]) -> str | None:
    """Return the launcher that words start; None if they start none."""
    return matched(words)[0] or None


def matched(words: Sequence[str]) -> tuple[str, int]:
    """Return the launcher that words start, and how many of them do; "" and 0 if they start none."""
    name = program_name(words[0])
    if PYTHON_NAME.fullmatch(name):
        at = behind_python(words)
        if at + 1 >= len(words) or not words[at].endswith("m"):
            return "", 0
        of_module = (launcher for launcher, known in launchers().items() if words[at + 1] in known.modules)
        return next(of_module, ""), at + 2
    for command, launcher in _commands().get(name, ()):
        if list(words[1 : len(command)]) == command[1:]:
            return launcher, len(command)
    return "", 0


def behind_python(words: Sequence[str]) -> int:
    """Return the index of what a Python at the start of words runs, behind its options: a file, -m or -c."""
    i = 1
    while i < len(words) and words[i].startswith("-") and not re.fullmatch(r"-[a-zA-Z]*[mc]", words[i]):
        i += 2 if words[i] in ("-X", "-W") else 1
    return i


def option(words: Sequence[str], *names: str) -> str | None:
    """Return the value of an option of a launcher; `-` and `_` are one to them, and one letter stands behind `-`."""
    for i, word in enumerate(words):
        name, given, value = word.partition("=")
        dashes = "-" if len(name) == 2 else "--"
        if name.startswith(dashes) and spelled(name.removeprefix(dashes)) in names:
            return value if given else words[i + 1] if i + 1 < len(words) else ""
        if word.endswith(".py"):
            return None
    return None


def has_unknown(words: Sequence[str]) -> bool:
    """Tell if a word before the program may hold any options: a variable that is no option's value."""
    before = ""
    for word in words:
        if word.endswith(".py"):
            return False
        if word.startswith(("$", OUTER)) and (not before.startswith("--") or "=" in before):
            return True
        before = word
    return False


def alone(launcher: Launcher, words: Sequence[str]) -> str:
    """Return what keeps a node from the others, in words with a launcher's options; empty if it has their address."""
    name = launcher.command
    if launcher.variables:
        return ""
    if "--standalone" in words:
        return f"--standalone of {name} is for one node"
    nodes = option(words, "nnodes", "num_machines", "num_nodes")
    if nodes in ("1", "1:1"):
        return f"{name} is told of one node"
    address = option(words, "rdzv_endpoint", "master_addr", "main_process_ip", "main_address", "hostfile", "host")
    if address and _THIS_NODE.fullmatch(address):
        return f"{address} is the address of each node itself"
    if address and nodes is None and "nnodes" in launcher.options:  # the others have a hostfile, or a file of theirs
        return f"{name} is for one node without --nnodes"
    return "" if address else f"{name} gets no address of the other nodes"


def spelled(name: str) -> str:
    """Return the name of an option with `_` for `-`: argparse takes either."""
    return name.replace("-", "_")


def program_name(word: str) -> str:
    """Return the last part of a path to a program."""
    return word.rsplit("/", 1)[-1]

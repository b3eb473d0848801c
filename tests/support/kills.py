"""Runs of uenvtool that are killed: before any one step that changes something on disk or starts a program."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.project import ROOT

CHANGES = {f"os.{name}" for name in ("chmod", "link", "mkdir", "remove", "rename", "rmdir", "symlink", "truncate")}
CHANGES |= {"shutil.copyfile", "subprocess.Popen"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def step_hook(kill_before: int, log: str = os.devnull, delay: float = 0) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook that ends this process before its step of that number (from 1), or so many seconds after it.

    0 notes each step in the log in place of it: Python's event and its first argument ("os.rename '/a/b'").
    """
    count, lock = 0, threading.Lock()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITES or arguments[0] == log:
                return
        elif event not in CHANGES:
            return
        with lock:
            count += 1
            if count == kill_before and delay:
                signal.setitimer(signal.ITIMER_REAL, delay)  # SIGALRM ends it as SIGKILL does: nothing is tidied up
            elif count == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)
            if kill_before == 0:  # os.write: print() would be a step of its own
                os.write(out, f"{event} {arguments[0]!r}\n".replace("\n", " ").encode(errors="replace") + b"\n")

    return hook


PRELUDE = """
import signal, sys
sys.path.insert(0, ROOT)
from tests.support.kills import step_hook
hook = step_hook(int(sys.argv.pop(1)), sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it, those of nohup this:
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
MAIN = "from uenvtool.__main__ import main; sys.addaudithook(hook); main()"
"""What runs after the prelude: the command line; another code sets the hook too, where its steps begin."""


def command(*words: str | Path, code: str = MAIN, kill_before: int = -1, log: str = "/dev/null") -> list[str]:
    """uenvtool in a process of its own, from this checkout; ends itself by SIGKILL before that step (from 1)."""
    whole = f"ROOT = {str(ROOT)!r}\n{PRELUDE}{code}"
    return [sys.executable, "-E", "-c", whole, str(kill_before), log, *map(str, words)]


def steps(*words: str | Path, code: str = MAIN) -> list[str]:
    """The steps of a whole run, each as Python's audit event and its first argument ("os.rename '/a/b'")."""
    with tempfile.NamedTemporaryFile("r", suffix=".steps") as log:
        done = subprocess.run(
            command(*words, code=code, kill_before=0, log=log.name), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return log.read().splitlines()


def killed_before(step: int, *words: str | Path, code: str = MAIN) -> int:
    """Run uenvtool until it kills itself before that step; gives how it ended (-9 if it came there)."""
    done = subprocess.run(command(*words, code=code, kill_before=step), capture_output=True, check=False)
    return done.returncode


def chosen(names: Sequence[str], some: int = 3, seed: int = 4) -> Iterator[int]:
    """The numbers of the steps to kill at: the first and the last of each kind, and a few by chance."""
    kinds: dict[str, list[int]] = {}
    for number, name in enumerate(names, 1):
        kinds.setdefault(name.partition(" ")[0], []).append(number)
    ends = {number for numbers in kinds.values() for number in (numbers[0], numbers[-1])}
    rest = sorted(set(range(1, len(names) + 1)) - ends)
    yield from sorted(ends | set(random.Random(seed).sample(rest, min(some, len(rest)))))


KILLED = -signal.SIGKILL

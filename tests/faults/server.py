"""uenvtool again and again without its start: a server has it loaded, and each run is a fork.

A run is the whole command, from its first step, in a process of its own.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.support.project import ROOT

CHANGES = {f"os.{name}" for name in ("chmod", "link", "mkdir", "remove", "rename", "rmdir", "symlink", "truncate")}
CHANGES |= {"shutil.copyfile", "subprocess.Popen"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SERVE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.faults.server import serve; serve()"


def step_hook(kill_before: int, log: str, delay: float, sent: int) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that sends a signal to this process before a step, or `delay` seconds after it.

    kill_before: the number of the step, from 1; 0 writes each step to the log instead, as Python's event and its first
    argument ("os.rename '/a/b'"). sent: SIGKILL, or a signal that the process handles.
    """
    if sent != signal.SIGKILL:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), sent))
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
                os.kill(os.getpid(), sent)
            if kill_before == 0:  # os.write: print() would be a step of its own
                os.write(out, f"{event} {arguments[0]!r}\n".replace("\n", " ").encode(errors="replace") + b"\n")

    return hook


@dataclass(frozen=True, slots=True)
class Server:
    """Runs commands, one after another, in the folder and the environment in which it was started."""

    process: subprocess.Popen[str]
    scratch: Path

    def run(self, words: Sequence[str | Path], kill: tuple[int, str, float, int] | None = None) -> tuple[int, str]:
        """How a command ended (negative: by which signal), and what it told.

        kill: the arguments of `step_hook`.
        """
        assert self.process.stdin
        assert self.process.stdout
        told = self.scratch / "told"
        print(json.dumps([list(map(str, words)), str(told), kill]), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline()), told.read_text()

    def steps(self, words: Sequence[str | Path]) -> list[str]:
        """The steps of a command that succeeds, as `step_hook` has them."""
        log = self.scratch / "steps"
        code, told = self.run(words, kill=(0, str(log), 0, signal.SIGKILL))
        assert code == 0, told
        return log.read_text().splitlines()


@contextmanager
def server() -> Iterator[Server]:
    """A server in the current folder and environment."""
    process = subprocess.Popen(
        [sys.executable, "-E", "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with tempfile.TemporaryDirectory() as scratch, process:
        yield Server(process, Path(scratch))


def serve() -> None:
    """Answer each line of stdin, a command and the file for what it tells, by how the command ended."""
    for line in sys.stdin:
        words, told, kill = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(words, told, kill)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(FileNotFoundError):
            for name in Path(f"{told}.modules").read_text().split():
                with suppress(ImportError):
                    importlib.import_module(name)
        print(code, flush=True)


def _become(words: Sequence[str], told: str, kill: tuple[int, str, float] | None) -> NoReturn:
    """Be uenvtool; what it loads is noted, so that the next run has it loaded."""
    for number, path in enumerate((os.devnull, os.devnull, told)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os._exit = functools.partial(_note_and_leave, f"{told}.modules", set(sys.modules), os._exit)
    from uenvtool.__main__ import main

    sys.argv = ["uenvtool", *words]
    if kill:
        sys.addaudithook(step_hook(*kill))
    main()
    raise AssertionError("it ends the process itself")


def _note_and_leave(path: str, before: set[str], leave: Callable[[int], NoReturn], code: int) -> NoReturn:
    Path(path).write_text("\n".join(sorted(set(sys.modules) - before)))
    leave(code)

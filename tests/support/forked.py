"""uenvtool again and again without its start: a server has it loaded, and each run is a fork that strace may watch.

A run is the whole command, from its first step, in a process of its own. strace is on it before that step: the calls
that it counts are the same in every run, and none of them is Python's own start.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.support.kills import step_hook
from tests.support.project import ROOT

SERVE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.support.forked import serve; serve()"
PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)


@dataclass(frozen=True, slots=True)
class Server:
    """Runs commands, one after another, in the folder and the environment in which it was started."""

    process: subprocess.Popen[str]
    scratch: Path

    def run(
        self, words: Sequence[str | Path], watch: Sequence[str] = (), kill: tuple[int, str, float] | None = None
    ) -> tuple[int, str]:
        """How a command ended (negative: by which signal), and what it told; strace with these options watches it.

        kill: the arguments of `step_hook`.
        """
        told = self.scratch / "told"
        pid = int(self._answer([list(map(str, words)), str(told), bool(watch), kill]))
        watching = _watching(pid, watch) if watch else None
        os.kill(pid, signal.SIGCONT)
        code = int(self._answer())
        if watching:
            watching.communicate()
        return code, told.read_text()

    def trace(self, words: Sequence[str], calls: str) -> list[str]:
        """strace's lines on those calls ("open,stat") of a command that succeeds, without those of its children."""
        log = self.scratch / "trace"
        assert self.run(words, ["-e", f"trace={calls}", "-o", str(log)])[0] == 0
        return log.read_text().splitlines()

    def steps(self, words: Sequence[str | Path]) -> list[str]:
        """The steps of a command that succeeds, as `step_hook` has them."""
        log = self.scratch / "steps"
        code, told = self.run(words, kill=(0, str(log), 0))
        assert code == 0, told
        return log.read_text().splitlines()

    def _answer(self, request: object = None) -> str:
        assert self.process.stdin
        assert self.process.stdout
        if request:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.process.stdout.readline()


def _watching(pid: int, options: Sequence[str]) -> subprocess.Popen[str]:
    """strace, when it is on a process that waits."""
    watching = subprocess.Popen(["strace", *options, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    assert watching.stderr
    assert "attached" in watching.stderr.readline()
    return watching


@contextmanager
def server() -> Iterator[Server]:
    """A server in the current folder and environment."""
    process = subprocess.Popen(
        [sys.executable, "-E", "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with tempfile.TemporaryDirectory() as scratch, process:
        yield Server(process, Path(scratch))


def serve() -> None:
    """Answer each line of stdin, a command and the file for what it tells, by its process id, then by how it ended."""
    for line in sys.stdin:
        words, told, is_watched, kill = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(words, told, is_watched, kill)
        os.waitpid(pid, os.WUNTRACED)
        print(pid, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(FileNotFoundError):
            for name in Path(f"{told}.modules").read_text().split():
                with suppress(ImportError):
                    importlib.import_module(name)
        print(code, flush=True)


def _become(words: Sequence[str], told: str, is_watched: bool, kill: tuple[int, str, float] | None) -> NoReturn:
    """Wait for a signal to go on, then be uenvtool; what it loads is noted, so that the next run has it loaded."""
    for number, path in enumerate((os.devnull, os.devnull, told)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)  # where else only a parent may trace
    if not is_watched:
        os._exit = functools.partial(_note_and_leave, f"{told}.modules", set(sys.modules), os._exit)
    os.kill(os.getpid(), signal.SIGSTOP)
    from uenvtool.__main__ import main

    sys.argv = ["uenvtool", *words]
    if kill:
        sys.addaudithook(step_hook(*kill))
    main()
    raise AssertionError("it ends the process itself")


def _note_and_leave(path: str, before: set[str], leave: Callable[[int], NoReturn], code: int) -> NoReturn:
    Path(path).write_text("\n".join(sorted(set(sys.modules) - before)))
    leave(code)

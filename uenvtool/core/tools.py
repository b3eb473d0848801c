"""The one door through which external programs start: argument lists, never a shell."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, BinaryIO, NoReturn

from uenvtool.core import signals as ending
from uenvtool.core.errors import ToolFailed

LineHandler = Callable[[str], None]
KILL_AFTER_SECONDS = 10
"""How long a program may take to end when it is asked to, in an error of ours; a signal gives it less (signals.py)."""
PIPE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ran to its end: what was started, its exit code, and what it printed."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def command(self) -> str:
        """Return the command as a user would type it."""
        return shlex.join(self.argv)

    @property
    def reason(self) -> str:
        """Return what it said last, most likely why it failed: a line of its errors, else of its output."""
        return (self.stderr.strip() or self.stdout.strip() or f"exit code {self.code}").splitlines()[-1]


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: LineHandler | None = None,
    memory_bytes: int | None = None,
) -> Completed:
    """Run a program to its end and give back what it printed; `on_line` sees each line as it comes.

    memory_bytes: the most memory that the program may reserve, for one that reads what others wrote.

    The program gets its own process group, so that when this process is interrupted or dies of an
    exception, all that it started dies too. Raises ToolFailed if it cannot be started; its own exit
    code is the caller's to judge.
    """
    words = tuple(str(word) for word in argv)
    with _started(words, cwd, env, memory_bytes) as process:
        stdout, stderr = _collected(process, on_line)
    return Completed(words, process.returncode, stdout, stderr)


@contextlib.contextmanager
def reading(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, memory_bytes: int | None = None
) -> Iterator[BinaryIO]:
    """Start a program and give what it prints as bytes, as it comes; it is stopped at the end.

    memory_bytes: as in `run`. Raises ToolFailed if it cannot be started, or if it was read to its end
    and its exit code says that it failed.
    """
    from threading import Thread

    words = tuple(str(word) for word in argv)
    with _started(words, None, env, memory_bytes) as process:
        errors: list[str] = []

        def keep_errors() -> None:
            with _pipe(process.stderr) as stream:
                errors.extend(stream)

        beside = Thread(target=keep_errors, daemon=True)
        beside.start()
        with _pipe(process.stdout) as pipe:
            with contextlib.suppress(OSError):  # a large pipe: fewer changes between both programs
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            with open(pipe.fileno(), "rb", buffering=PIPE_BYTES, closefd=False) as stream:
                yield stream
        process.wait()
        beside.join()
    if process.returncode != 0:
        last_line = ("".join(errors).strip() or "it printed no reason").splitlines()[-1]
        raise ToolFailed(f"{os.path.basename(words[0])} failed: {last_line}")


@contextlib.contextmanager
def _started(
    words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str] | None, memory_bytes: int | None
) -> Iterator[subprocess.Popen[str]]:
    with contextlib.ExitStack() as stack:
        with ending.starting_program(), _undisturbed():
            process = _opened(words, cwd, env, memory_bytes)
            stack.enter_context(_ended_on_error(process))
        yield process


def _opened(
    words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str] | None, memory_bytes: int | None
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            preexec_fn=_before_exec(memory_bytes),  # noqa: PLW1509  system calls alone, safe between fork and exec
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in a word
        why = getattr(error, "strerror", None) or error
        raise ToolFailed(f"cannot start {words[0]}: {why}", hint="see that it is a program that you may run") from error


@contextlib.contextmanager
def _ended_on_error(process: subprocess.Popen[str]) -> Iterator[None]:
    with ending.ended_with_us(process.pid):
        try:
            yield
        except BaseException:
            _end(process)
            raise


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Let Ctrl-C and its like wait until a program is started.

    Python's modules hold their locks while it forks (os.register_at_fork). An exception in one of
    these hooks is swallowed and leaves its lock held: the interruption is lost, and the next thread
    that starts a program waits for ever.
    """
    from threading import current_thread, main_thread

    if current_thread() is not main_thread():  # handlers run in the main thread alone
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    numbers = [number for number in ending.SIGNALS if callable(signal.getsignal(number))]
    before = {number: signal.signal(number, lambda *caught: came.append(caught)) for number in numbers}
    try:
        yield
    finally:
        for ending_signal, usual in before.items():
            signal.signal(ending_signal, usual)
    for number, frame in came:
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)


def become(argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> NoReturn:
    """Go on as another program, with this terminal and this process: the rest of the work is its.

    Raises ToolFailed if it cannot be started.
    """
    import sys

    words = [str(word) for word in argv]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(words[0], words, dict(os.environ if env is None else env))  # noqa: S606  no shell is what is meant
    except OSError as error:
        raise ToolFailed(f"cannot start {words[0]}: {error.strerror or error}") from error


def _before_exec(memory_bytes: int | None) -> Callable[[], None]:
    """Let a child be killed when this process is killed and cannot clean up (prctl(2)), and give it a limit."""
    import ctypes
    import resource

    pr_set_pdeathsig = 1
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        prctl = None

    def prepare() -> None:
        if prctl is not None:
            prctl(pr_set_pdeathsig, signal.SIGKILL)
        if memory_bytes is not None:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))

    return prepare


def _collected(process: subprocess.Popen[str], on_line: LineHandler | None) -> tuple[str, str]:
    """Read both outputs to their ends, each in its own thread so that neither can fill its pipe."""
    from threading import Lock, Thread

    one_at_a_time = Lock()

    def read(stream: IO[str], kept: list[str]) -> None:
        with stream:  # a stream that is closed when it is forgotten swallows a Ctrl-C that comes then
            for line in stream:
                kept.append(line)
                if on_line:
                    with one_at_a_time:
                        on_line(line.rstrip("\n"))

    stdout: list[str] = []
    stderr: list[str] = []
    beside = Thread(target=read, args=(_pipe(process.stderr), stderr), daemon=True)
    beside.start()
    read(_pipe(process.stdout), stdout)
    process.wait()
    beside.join()
    return "".join(stdout), "".join(stderr)


def _pipe(stream: IO[str] | None) -> IO[str]:
    """Return the stream, which is a pipe in each program that this module starts, see _opened."""
    if stream is None:
        raise AssertionError("a program was started without pipes")
    return stream


def _end(process: subprocess.Popen[str]) -> None:
    """Stop the program and everything in its group, politely first."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    _wait_unreaped(process.pid, KILL_AFTER_SECONDS)
    with contextlib.suppress(ProcessLookupError):  # what the program started may outlive it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_unreaped(pid: int, seconds: float) -> None:
    """Wait until a child has ended, so long at most. Its number, which is its group's, stays taken."""
    import time

    until = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None and time.monotonic() < until:
            time.sleep(0.005)

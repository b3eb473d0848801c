"""The one door through which external programs start, argument lists and never a shell; and how all of them end.

Ctrl-C, SIGTERM and SIGHUP ask every program that runs to end, and raise KeyboardInterrupt, so that what is half done
is removed. Programs that go on after GRACE_SECONDS are killed. A second signal ends this process whatever it is doing,
and so do LIMIT_SECONDS; what it could not remove, the next run removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, NoReturn, cast

from uenvtool.core.errors import ToolFailed
from uenvtool.core.session import STARTED_BY

LineHandler = Callable[[str], None]
INTERRUPTED = 130
"""The exit code of a command that a signal ended, as shells count Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 0.5
"""How long a program may take to end after a signal."""
LIMIT_SECONDS = 5
"""How long this process may take after a signal, and a program after an error of ours."""
PIPE_BYTES = 1 << 20

doing: list[str] = []
"""What long work is at, its title and its step: who interrupts it is told."""
_groups: set[int] = set()
"""The process groups of the programs that run now."""


@dataclass
class _Interruption:
    """How far a signal has come. is_late: it waits until the main thread has started its program."""

    has_come: bool = False
    is_starting: bool = False
    is_late: bool = False
    is_told: bool = False


_state = _Interruption()


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
    words = tuple(map(str, argv))
    one_at_a_time = threading.Lock()

    def tell(line: str) -> None:
        if on_line:
            with one_at_a_time:
                on_line(line.rstrip("\n"))

    stdout: list[str] = []
    with _started(words, env, memory_bytes) as process:
        with _read_beside(process.stderr, tell) as stderr:
            _read_lines(process.stdout, stdout, tell)
        process.wait()
    return Completed(words, process.returncode, "".join(stdout), "".join(stderr))


@contextlib.contextmanager
def reading(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, memory_bytes: int | None = None
) -> Iterator[BinaryIO]:
    """Start a program and give what it prints as bytes, as it comes; it is stopped at the end.

    memory_bytes: as in `run`. Raises ToolFailed if it cannot be started, or if it was read to its end
    and its exit code says that it failed.
    """
    words = tuple(map(str, argv))
    with _started(words, env, memory_bytes) as process:
        with _read_beside(process.stderr) as errors, _pipe(process.stdout) as stream:
            with contextlib.suppress(OSError):  # a large pipe: fewer changes between both programs
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            yield stream
        process.wait()
    if process.returncode != 0:
        last_line = ("".join(errors).strip() or "it printed no reason").splitlines()[-1]
        raise ToolFailed(f"{os.path.basename(words[0])} failed: {last_line}")


def become(argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> NoReturn:
    """Go on as another program, with this terminal and this process: the rest of the work is its.

    Raises ToolFailed if it cannot be started.
    """
    words = [str(word) for word in argv]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(words[0], words, dict(os.environ if env is None else env))  # no shell is what is meant
    except OSError as error:
        raise ToolFailed(f"cannot start {words[0]}: {error.strerror or error}") from error


def end_on_signals() -> None:
    """Let signals end this process so. What is ignored stays ignored, as SIGHUP is under nohup."""
    sys.unraisablehook = _report_unraisable
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def is_interrupted() -> bool:
    """Tell if a signal has come: whatever fails from now on fails because of it."""
    return _state.has_come


def tell_interrupted() -> None:
    """Tell the user, once, that the command was interrupted: of long work how far it came, and what goes on with it."""
    if _state.is_told:
        return
    _state.is_told = True
    text = "interrupted\n"
    if doing:
        again = f"{os.environ.get(STARTED_BY, '')} {shlex.join(['uenvtool', *sys.argv[1:]])}".strip()
        text = f"interrupted: {': '.join(doing)}\nhint: nothing is half written; this goes on:\n  {again}\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


def leave(code: int) -> NoReturn:
    """End the process now, with its threads. What it printed must have been flushed."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os._exit(code)


def _interrupt(_number: int, _frame: object) -> None:
    if _state.is_starting:
        _state.is_late = True
        return
    if _state.has_come:
        _leave_at_once()
    _state.has_come = True
    _signal_programs(signal.SIGTERM)
    signal.signal(signal.SIGALRM, _insist)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
    raise KeyboardInterrupt


def _insist(_number: int, _frame: object) -> None:
    """Kill the programs that go on, and end this process if it goes on too."""
    _signal_programs(signal.SIGKILL)
    signal.signal(signal.SIGALRM, lambda *_: _leave_at_once())
    signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)


def _leave_at_once() -> NoReturn:
    _signal_programs(signal.SIGKILL)
    tell_interrupted()
    leave(INTERRUPTED)


def _signal_programs(number: int) -> None:
    for group in tuple(_groups):
        with contextlib.suppress(OSError):
            os.killpg(group, number)


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """End the process where Python would lose a KeyboardInterrupt, as in a callback of its import system."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave_at_once()
    sys.__unraisablehook__(unraisable)


@contextlib.contextmanager
def _started(
    words: tuple[str, ...], env: Mapping[str, str] | None, memory_bytes: int | None
) -> Iterator[subprocess.Popen[bytes]]:
    with contextlib.ExitStack() as stack:
        with _signals_wait():
            process = _opened(words, env, memory_bytes)
            stack.enter_context(_ended_with_us(process))
        yield process


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Let a signal wait until the main thread has started its program, and can end it.

    An exception in the midst of a fork would also leave locks of Python's modules held (os.register_at_fork).
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread alone
        yield
        return
    _state.is_starting = True
    try:
        yield
    finally:
        _state.is_starting = False
        if _state.is_late:
            _state.is_late = False
            _interrupt(0, None)


def _opened(words: tuple[str, ...], env: Mapping[str, str] | None, memory_bytes: int | None) -> subprocess.Popen[bytes]:
    # A child can ask only by itself to be killed with its parent, so it has to run code of ours between fork and exec.
    # Ruff warns of that because a lock that another thread held at the fork is never released in the child:
    # `_before_exec` loads what it needs before the fork, and in the child makes two system calls and takes no lock.
    try:
        return subprocess.Popen(
            words,
            env=None if env is None else dict(env),
            bufsize=PIPE_BYTES,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_before_exec(memory_bytes),  # noqa: PLW1509  see above
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in a word
        why = getattr(error, "strerror", None) or error
        raise ToolFailed(f"cannot start {words[0]}: {why}", hint="see that it is a program that you may run") from error


def _before_exec(memory_bytes: int | None) -> Callable[[], None]:
    """Let a child be killed when this process is killed and cannot clean up (prctl(2)), and give it a limit."""
    import ctypes
    import resource

    pr_set_pdeathsig = 1
    prctl = ctypes.CDLL(None).prctl
    limit, hard = resource.getrlimit(resource.RLIMIT_AS)
    if memory_bytes is not None:
        limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)

    def prepare() -> None:
        prctl(pr_set_pdeathsig, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))

    return prepare


@contextlib.contextmanager
def _ended_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    _groups.add(process.pid)
    try:
        if is_interrupted() and threading.current_thread() is not threading.main_thread():
            raise KeyboardInterrupt
        yield
    except BaseException:
        _end(process)
        raise
    finally:
        _groups.discard(process.pid)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the program and everything in its group, politely first."""
    for number, seconds in ((signal.SIGTERM, LIMIT_SECONDS), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):  # the group may outlive the program
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


@contextlib.contextmanager
def _read_beside(stream: IO[bytes] | None, tell: LineHandler | None = None) -> Iterator[list[str]]:
    """Read an output in a thread, so that it cannot fill its pipe; yields its lines, all of them at the end."""
    lines: list[str] = []

    thread = threading.Thread(target=_read_lines, args=(stream, lines, tell), daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # the thread inherits it: if the kernel gave it
    try:  # the second of two signals, it would take both, and the main thread wait on for its program
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    yield lines
    thread.join()


def _read_lines(stream: IO[bytes] | None, lines: list[str], tell: LineHandler | None) -> None:
    with io.TextIOWrapper(_pipe(stream), encoding="utf-8", errors="replace") as text:
        for line in text:
            lines.append(line)
            if tell:
                tell(line)


def _pipe(stream: IO[bytes] | None) -> BinaryIO:
    """Return the stream, which is a pipe in each program that this module starts, see _opened."""
    return cast(BinaryIO, stream)

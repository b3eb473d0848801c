"""Starts and ends external programs; no other module does. Programs are started without a shell.

On Ctrl-C, SIGTERM or SIGHUP, this module asks every running program to end and raises KeyboardInterrupt, so that
unfinished files are removed. It kills programs that are still running after GRACE_SECONDS. A second signal ends this
process immediately, and LIMIT_SECONDS after the first one do the same. The next run removes any files that remain.
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

from uenvtool.core.errors import NoAnswer, ToolFailed
from uenvtool.core.session import STARTED_BY
from uenvtool.core.words import without_logins

LineHandler = Callable[[str], None]
INTERRUPTED = 130
"""The exit code of an interrupted command, the same as shells report after Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 0.5
"""Seconds that a program has to end after a signal."""
LIMIT_SECONDS = 5
"""Seconds that this process has to end after a signal, and a program after an error in this process."""
QUERY_SECONDS = 10.0
"""Seconds that a program has to answer a query. A driver or server that failed may never answer."""
SLOW_SECONDS = 2.0
"""Seconds after which a query prints the program that it waits for."""
PIPE_BYTES = 1 << 20

doing: list[str] = []
"""The title and the current step of long work, which the message after an interruption shows."""
_groups: set[int] = set()
"""The process groups of the running programs."""


@dataclass
class _Interruption:
    """The state of an interruption. is_late: whether its handling waits until the main thread has started a program."""

    has_come: bool = False
    is_starting: bool = False
    is_late: bool = False
    is_printed: bool = False


_state = _Interruption()


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that has ended, with its arguments, exit code and output."""

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
        """Return the last line of stderr, or else of stdout, which most likely states the cause of a failure."""
        return (self.stderr.strip() or self.stdout.strip() or f"exit code {self.code}").splitlines()[-1]


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    on_line: LineHandler | None = None,
    memory_bytes: int | None = None,
) -> Completed:
    """Run a program to its end and return its output.

    on_line: called with each line of output when the program prints it. memory_bytes: the limit for the program's
    memory, for programs that read untrusted files. The program has its own process group, so that it ends with all its
    children when this process is interrupted or fails. Raises ToolFailed if the program cannot be started. The caller
    checks the exit code.
    """
    words = tuple(map(str, argv))
    one_at_a_time = threading.Lock()

    def tell(line: str) -> None:
        if on_line:
            with one_at_a_time:
                on_line(line.rstrip("\n"))

    stdout: list[str] = []
    with _started(words, env, memory_bytes) as process:
        thread, stderr = _reader(process.stderr, tell)
        _read_lines(process.stdout, stdout, tell)
        thread.join()
        process.wait()
    return Completed(words, process.returncode, "".join(stdout), "".join(stderr))


def ask(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> Completed:
    """Run a program that only prints facts, such as nvidia-smi or squeue, and return its output.

    After SLOW_SECONDS, prints on stderr that it waits for the program. After QUERY_SECONDS, kills the process group and
    raises NoAnswer. Everything else is as in `run`, which has no time limit.
    """
    words = tuple(map(str, argv))
    name = os.path.basename(words[0])
    with _started(words, env, None) as process:
        output = _output_within(SLOW_SECONDS, process)
        if output is None:
            with contextlib.suppress(OSError):
                os.write(2, f"waiting for {name}\n".encode(errors="backslashreplace"))
            output = _output_within(QUERY_SECONDS - SLOW_SECONDS, process)
        if output is None:
            _end(process, {signal.SIGKILL: GRACE_SECONDS})  # a failed driver can make a program unkillable
    if output is None:
        raise NoAnswer(name, shlex.join(words))
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace").read() for data in output)
    return Completed(words, process.returncode, stdout, stderr)


@contextlib.contextmanager
def reading(
    argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, memory_bytes: int | None = None
) -> Iterator[BinaryIO]:
    """Start a program and yield its output as a stream of bytes; the program is stopped at the end.

    memory_bytes: as in `run`. Raises ToolFailed if the program cannot be started, or if its output was read to the end
    and its exit code is not 0.
    """
    words = tuple(map(str, argv))
    with _started(words, env, memory_bytes) as process:
        thread, errors = _reader(process.stderr)
        with _pipe(process.stdout) as stream:
            with contextlib.suppress(OSError):  # with a larger pipe, the system switches less between both programs
                fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            yield stream
        thread.join()
        process.wait()
    if process.returncode != 0:
        last_line = ("".join(errors).strip() or "it printed no error message").splitlines()[-1]
        raise ToolFailed(f"{os.path.basename(words[0])} failed: {last_line}")


def become(argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> NoReturn:
    """Replace this process with a program that keeps its terminal. Raises ToolFailed if it cannot be started."""
    words = [str(word) for word in argv]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(words[0], words, dict(os.environ if env is None else env))  # intentionally without a shell
    except OSError as error:
        raise ToolFailed(f"cannot start {words[0]}: {error.strerror or error}") from error


def end_on_signals() -> None:
    """Install the signal handlers of this module. Ignored signals stay ignored, such as SIGHUP under nohup."""
    sys.unraisablehook = _report_unraisable
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def is_interrupted() -> bool:
    """Return whether this process received a signal, which then explains any later failure."""
    return _state.has_come


def tell_interrupted() -> None:
    """Print once that the command was interrupted and, for long work, the step and the command that continues it."""
    if _state.is_printed:
        return
    _state.is_printed = True
    text = "interrupted\n"
    if doing:
        command = without_logins(shlex.join(["uenvtool", *sys.argv[1:]]))
        again = f"{os.environ.get(STARTED_BY, '')} {command}".strip()
        text = f"interrupted: {': '.join(doing)}\nhint: no file is incomplete; to continue, run:\n  {again}\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


def leave(code: int) -> NoReturn:
    """End this process and its threads immediately. The caller must have flushed all output."""
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
    # Python would lose a KeyboardInterrupt in some callbacks, such as in its import system.
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
    # Until the program has started, the handler cannot end it. An exception during a fork would also leave locks of
    # Python modules held (os.register_at_fork).
    if threading.current_thread() is not threading.main_thread():  # signal handlers run only in the main thread
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
    # Only the child itself can ask the kernel to kill it with its parent, so our code must run between fork and exec.
    # Ruff warns about that, because a lock that another thread holds during the fork is never released in the child.
    # `_before_exec` loads its modules before the fork. In the child, it makes two system calls and takes no lock.
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
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        why = getattr(error, "strerror", None) or error
        hint = "check that the program exists and that you may execute it"
        raise ToolFailed(f"cannot start {words[0]}: {why}", hint=hint) from error


def _before_exec(memory_bytes: int | None) -> Callable[[], None]:
    # The kernel kills the child if this process is killed and cannot clean up (prctl(2)), and limits its memory.
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
        _end(process, {signal.SIGTERM: LIMIT_SECONDS, signal.SIGKILL: None})
        raise
    finally:
        _groups.discard(process.pid)


def _end(process: subprocess.Popen[bytes], waits: Mapping[signal.Signals, float | None]) -> None:
    for number, seconds in waits.items():
        with contextlib.suppress(ProcessLookupError):  # the group may outlive the program
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def _reader(stream: IO[bytes] | None, tell: LineHandler | None = None) -> tuple[threading.Thread, list[str]]:
    lines: list[str] = []
    thread = threading.Thread(target=_read_lines, args=(stream, lines, tell), daemon=True)
    # Without a thread, a program that fills this pipe would wait forever. The thread inherits the blocked signals.
    # Otherwise the kernel could deliver the second of two signals to the thread. The thread would then consume both,
    # and the main thread would keep waiting for its program.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread, lines


def _output_within(seconds: float, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes] | None:
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:  # also if a child of the program keeps the output open
        return None


def _read_lines(stream: IO[bytes] | None, lines: list[str], tell: LineHandler | None) -> None:
    with io.TextIOWrapper(_pipe(stream), encoding="utf-8", errors="replace") as text:
        for line in text:
            lines.append(line)
            if tell:
                tell(line)


def _pipe(stream: IO[bytes] | None) -> BinaryIO:
    return cast(BinaryIO, stream)  # `_opened` starts every program with pipes

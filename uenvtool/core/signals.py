"""How a command ends early: Ctrl-C, SIGTERM and SIGHUP end it and all that it started, within a second.

The first signal asks every program that runs to stop, and raises KeyboardInterrupt in the main thread,
so that what is half done is removed. Programs that go on after GRACE_SECONDS are killed. After
LIMIT_SECONDS, or at a second signal, the process ends whatever it is doing; what it could not remove,
the next run removes.

A thread watches for signals, since the main thread may not see one in time: it may be busy in C, and
CPython loses a signal that comes just before the main thread waits for a lock.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

INTERRUPTED = 130
"""The exit code of a command that a signal ended, as shells count Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 0.5
LIMIT_SECONDS = 0.9
WAKE = signal.SIGURG
"""Means nothing and is ignored by default: it makes the main thread look for signals."""

doing: list[str] = []
"""What long work is at, its title and its step: who interrupts it is told."""
_programs: set[int] = set()
"""The process groups of the programs that run now."""
_starting: set[object] = set()
"""A mark for each program whose process group is not known yet."""
_began = False
_is_raised = False
_is_repeated = False
_is_announced = False
_announcing = _thread.allocate_lock()


def install() -> None:
    """Let signals end this process so. What is ignored stays ignored, as SIGHUP is under nohup."""
    sys.unraisablehook = _report_unraisable
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_once)
    signal.signal(WAKE, lambda *_caught: None)
    _thread.start_new_thread(_watch, (reader, _thread.get_ident()))  # cheaper than the module threading


def has_begun() -> bool:
    """Tell if a signal has come: whatever fails from now on fails because of it."""
    return _began or _is_raised


@contextlib.contextmanager
def starting_program() -> Iterator[None]:
    """Hold a second signal back until the program that is being started can be ended: see `ended_with_us`."""
    mark = object()
    _starting.add(mark)
    try:
        yield
    finally:
        _starting.discard(mark)


@contextlib.contextmanager
def ended_with_us(group: int) -> Iterator[None]:
    """Name a program's process group, to be ended if a signal comes. Raises KeyboardInterrupt if one has come."""
    _programs.add(group)
    try:
        if has_begun():  # in a thread: the signal came while the program was started
            _signal_programs(signal.SIGKILL)
            raise KeyboardInterrupt
        yield
    finally:
        _programs.discard(group)


def announce() -> None:
    """Tell the user, once, that the command was interrupted."""
    global _is_announced  # noqa: PLW0603  signals belong to the process
    # The thread that comes second ends the process: it waits until the first has written, or cannot.
    is_free = _announcing.acquire(timeout=GRACE_SECONDS)
    try:
        if not _is_announced:
            _is_announced = True
            with contextlib.suppress(OSError):
                os.write(2, _last_words().encode(errors="backslashreplace"))
    finally:
        if is_free:
            _announcing.release()


def _last_words() -> str:
    """Return what the user reads: of long work how far it came, and the command that goes on with it."""
    if not doing:
        return "interrupted\n"
    import shlex

    from uenvtool.core.session import STARTED_BY

    again = f"{os.environ.get(STARTED_BY, '')} {shlex.join(['uenvtool', *sys.argv[1:]])}".strip()
    return f"interrupted: {': '.join(doing)}\nhint: nothing is half written; this goes on:\n  {again}\n"


def leave(code: int) -> NoReturn:
    """End the process now, with its threads. What it printed must have been flushed."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os._exit(code)


def _raise_once(_number: int, _frame: object) -> None:
    global _is_raised  # noqa: PLW0603
    if not _is_raised:
        _is_raised = True
        raise KeyboardInterrupt


def _watch(reader: int, main_thread: int) -> None:
    """Wait for the first signal, in a thread of its own, then see to the end."""
    global _began  # noqa: PLW0603
    while os.read(reader, 1)[0] not in SIGNALS:  # the kernel says on the pipe which signals came
        pass
    start = time.monotonic()
    _began = True
    os.set_blocking(reader, False)
    _signal_programs(signal.SIGTERM)
    while (passed := time.monotonic() - start) < LIMIT_SECONDS:
        if not _is_raised:
            signal.pthread_kill(main_thread, WAKE)
        if passed > GRACE_SECONDS:
            _signal_programs(signal.SIGKILL)
        time.sleep(0.02)
        if _came_again(reader) and not _starting:
            break
    _signal_programs(signal.SIGKILL)
    announce()
    os._exit(INTERRUPTED)


def _came_again(reader: int) -> bool:
    global _is_repeated  # noqa: PLW0603
    with contextlib.suppress(BlockingIOError):
        _is_repeated = _is_repeated or any(number in SIGNALS for number in os.read(reader, 100))
    return _is_repeated


def _signal_programs(number: int) -> None:
    for group in tuple(_programs):
        with contextlib.suppress(OSError):
            os.killpg(group, number)


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Say nothing of a KeyboardInterrupt that Python cannot raise where it came, as in a callback."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)

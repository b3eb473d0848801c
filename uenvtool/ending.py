"""How a command ends early: Ctrl-C, SIGTERM and SIGHUP end it and all that it started, within a second.

The first signal asks every program that runs to stop, and raises KeyboardInterrupt in the main thread,
so that what is half done is removed. Programs that go on after GRACE_SECONDS are killed. After
LIMIT_SECONDS, or at a second signal, the process ends whatever it is doing; what it could not remove,
the next run removes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

INTERRUPTED = 130
"""The exit code of a command that a signal ended, as shells count Ctrl-C."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 0.5
LIMIT_SECONDS = 0.9

_programs: set[int] = set()
"""The process groups of the programs that run now."""
_began = False
_announced = False


def install() -> None:
    """Let signals end this process so. What is ignored stays ignored, as SIGHUP is under nohup."""
    sys.unraisablehook = _report_unraisable
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _begin)


def has_begun() -> bool:
    """If a signal has come: whatever fails from now on fails because of it."""
    return _began


@contextlib.contextmanager
def ended_with_us(group: int) -> Iterator[None]:
    """Name a program's process group, to be ended if a signal comes. Raises KeyboardInterrupt if one has come."""
    _programs.add(group)
    try:
        if _began:  # in a thread: the signal came while the program was started
            _signal_programs(signal.SIGKILL)
            raise KeyboardInterrupt
        yield
    finally:
        _programs.discard(group)


def announce() -> None:
    """Tell the user, once, that the command was interrupted."""
    global _announced  # noqa: PLW0603
    if not _announced:
        _announced = True
        with contextlib.suppress(OSError):
            os.write(2, b"interrupted\n")


def leave(code: int) -> NoReturn:
    """End the process now, with its threads. What it printed must have been flushed."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os._exit(code)


def _begin(number: int, frame: object) -> None:
    global _began  # noqa: PLW0603  signals belong to the process
    if _began:
        _end_now()
    _began = True
    _signal_programs(signal.SIGTERM)
    # A thread of the threading module would wait for locks that the interrupted code may hold.
    import _thread

    _thread.start_new_thread(_end_in_time, ())
    raise KeyboardInterrupt


def _end_in_time() -> None:
    import time

    time.sleep(GRACE_SECONDS)
    _signal_programs(signal.SIGKILL)
    time.sleep(LIMIT_SECONDS - GRACE_SECONDS)
    _end_now()


def _end_now() -> NoReturn:
    _signal_programs(signal.SIGKILL)
    announce()
    os._exit(INTERRUPTED)


def _signal_programs(number: int) -> None:
    for group in tuple(_programs):
        with contextlib.suppress(OSError):
            os.killpg(group, number)


def _report_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Say nothing of a KeyboardInterrupt that Python cannot raise where it came, as in a callback."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)

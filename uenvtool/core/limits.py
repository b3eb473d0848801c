"""Limits the CPU time and the depth of a file, because a few hostile bytes can keep a parser busy forever."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from uenvtool.core.errors import BadInput, Position

CPU_SECONDS = 10
"""The CPU time for one file. The largest files that uenvtool accepts take a few seconds."""


@contextlib.contextmanager
def limited(shown: str) -> Iterator[None]:
    """Limit the CPU time and the depth of the block, which reads a foreign file.

    shown: the name of the file in the error. The limit of an enclosing block stays in force. The CPU time has no limit
    outside the main thread, because only the main thread receives signals. Raises BadInput after CPU_SECONDS, or if the
    file is nested too deeply for Python.
    """
    position = Position(shown)
    is_main = threading.current_thread() is threading.main_thread()
    needs_timer = is_main and signal.getitimer(signal.ITIMER_PROF)[0] == 0
    try:
        with _timed(position) if needs_timer else contextlib.nullcontext():
            yield
    except RecursionError as error:
        hint = "use fewer levels, or check where the file comes from"
        raise BadInput("the file is nested too deeply", position, hint) from error


@contextlib.contextmanager
def _timed(position: Position) -> Iterator[None]:
    def stop(_number: int, _frame: object) -> None:
        message = f"reading the file takes more than {CPU_SECONDS} s of CPU time"
        raise BadInput(message, position, "check its contents, or name a smaller file")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS, 1)  # it repeats, because a reader may suppress the first error
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

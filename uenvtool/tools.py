"""The one door through which external programs start: argument lists, never a shell."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from uenvtool.errors import ToolFailed

LineHandler = Callable[[str], None]
KILL_AFTER_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ran to its end: what was started, its exit code, and what it printed."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    @property
    def command(self) -> str:
        """The command as a user would type it."""
        return shlex.join(self.argv)


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: LineHandler | None = None,
) -> Completed:
    """Run a program to its end and give back what it printed; `on_line` sees each line as it comes.

    The program gets its own process group, so that when this process is interrupted or dies of an
    exception, all that it started dies too. Raises ToolFailed where it cannot be started; its own
    exit code is the caller's to judge.
    """
    words = tuple(str(word) for word in argv)
    with _started(words, cwd, env) as process:
        stdout, stderr = _collected(process, on_line)
    return Completed(words, process.returncode, stdout, stderr)


@contextlib.contextmanager
def _started(
    words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[str]]:
    try:
        process = subprocess.Popen(
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
        )
    except OSError as error:
        raise ToolFailed(f"cannot start {words[0]}: {error.strerror or error}") from error
    try:
        yield process
    except BaseException:
        _end(process)
        raise


def _collected(process: subprocess.Popen[str], on_line: LineHandler | None) -> tuple[str, str]:
    """Read both outputs to their ends, each in its own thread so that neither can fill its pipe."""
    from threading import Lock, Thread

    one_at_a_time = Lock()

    def read(stream: IO[str], kept: list[str]) -> None:
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
    """The stream, which is there because both outputs are pipes, see _started."""
    if stream is None:
        raise AssertionError("a program was started without pipes")
    return stream


def _end(process: subprocess.Popen[str]) -> None:
    """Stop the program and everything in its group, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=KILL_AFTER_SECONDS)
            return

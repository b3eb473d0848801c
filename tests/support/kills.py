"""Runs of uenvtool that are killed: from outside, or before a step that changes something or starts a program."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.project import ROOT

CHANGES = {f"os.{name}" for name in ("chmod", "link", "mkdir", "remove", "rename", "rmdir", "symlink", "truncate")}
CHANGES |= {"shutil.copyfile", "subprocess.Popen"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def step_hook(kill_before: int, log: str, delay: float) -> Callable[[str, tuple[Any, ...]], None]:
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


PRELUDE = f"""
import signal, sys
sys.path.insert(0, {str(ROOT)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it, those of nohup this:
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
MAIN = "from uenvtool.__main__ import main; main()"
"""What runs after the prelude: the command line."""


def command(*words: str | Path, code: str = MAIN) -> list[str]:
    """uenvtool in a process of its own, from this checkout."""
    return [sys.executable, "-E", "-c", PRELUDE + code, *map(str, words)]

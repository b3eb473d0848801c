"""The entry point of `uenvtool` and of `python -m uenvtool`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run `uenvtool` and leave with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, and stays so
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the next lines are done, Ctrl-C ends this silently
    _open_standard_streams()
    _own_packages_first()
    from uenvtool.core import processes

    try:
        processes.end_on_signals()
        from uenvtool.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        processes.tell_interrupted()
        code = processes.INTERRUPTED
    processes.leave(code)


def _open_standard_streams() -> None:
    """Let closed standard streams lead nowhere: a file that is opened later would take their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _own_packages_first() -> None:
    """Look for packages in this tool's own place before PYTHONPATH, which is a uenv's, for another Python.

    An empty entry is the current folder, which may be gone. What the tool starts still gets the variable.
    """
    paths = os.environ.get("PYTHONPATH")
    if paths and os.path.exists(os.curdir):
        foreign = {os.path.abspath(path) for path in paths.split(os.pathsep)}
        sys.path.sort(key=lambda path: os.path.abspath(path) in foreign)


if __name__ == "__main__":
    main()

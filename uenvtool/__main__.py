"""The entry point of `uenvtool` and of `python -m uenvtool`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run `uenvtool` and end this process with its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a signal that is ignored stays ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until end_on_signals, Ctrl-C ends this process silently
    _open_standard_streams()
    _own_packages_first()
    from uenvtool.core import processes

    try:
        processes.end_on_signals()
        from uenvtool.cli import run

        processes.leave(run(sys.argv[1:]))  # inside the block, because Ctrl-C can also arrive at its end
    except KeyboardInterrupt:
        processes.tell_interrupted()
        processes.leave(processes.INTERRUPTED)


def _open_standard_streams() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # otherwise the next opened file would get the number of the closed stream
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free number, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _own_packages_first() -> None:
    # A uenv sets PYTHONPATH for another Python. The programs that uenvtool starts still need the variable.
    paths = os.environ.get("PYTHONPATH")
    # abspath fails for an empty entry of PYTHONPATH if the current directory no longer exists.
    if paths and os.path.exists(os.curdir):
        foreign = {os.path.abspath(path) for path in paths.split(os.pathsep)}
        sys.path.sort(key=lambda path: os.path.abspath(path) in foreign)


if __name__ == "__main__":
    main()

"""Runs the command line and turns what goes wrong into a message and an exit code."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from uenvtool import __version__

if TYPE_CHECKING:
    from uenvtool.errors import UenvtoolError

INTERRUPTED = 130
"""The exit code after Ctrl-C or another signal that ends a command, as shells count it."""


def main() -> None:
    """The entry point `uenvtool`."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is loaded
        sys.stdout.write(f"uenvtool {__version__}\n")
        return
    gc.set_threshold(200_000)  # rendering ends before that; Python's own 700 costs 7 % of `build`
    _own_packages_first()
    sys.exit(run(sys.argv[1:]))


def _own_packages_first() -> None:
    """Look for packages where this tool is installed before PYTHONPATH, which is a uenv's, for another Python.

    What the tool starts still gets the variable.
    """
    import os

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    named = {os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path} - {here}
    theirs = [path for path in sys.path if os.path.abspath(path) in named]
    if theirs and not sys.flags.ignore_environment:
        sys.path[:] = [path for path in sys.path if path not in theirs] + theirs


def run(arguments: list[str]) -> int:
    """Run one command; its exit code. Whatever goes wrong has become a message on stderr."""
    _end_on_terminate()
    try:
        from uenvtool.cli import call
        from uenvtool.console import flush

        code = call(arguments)
        flush()
        return code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception as error:
        return _failed(error, with_traceback="--debug" in arguments)


def _failed(error: Exception, *, with_traceback: bool) -> int:
    """Tell the user of an error; the exit code."""
    from uenvtool.console import failure

    if with_traceback:
        import traceback

        failure("".join(traceback.format_exception(error)))
    known = _as_known(error)
    failure(str(known))
    return int(known.exit_code)


def _as_known(error: Exception) -> UenvtoolError:
    """An error as one of those that say what to do."""
    from uenvtool.errors import ToolFailed, UenvtoolError

    if isinstance(error, UenvtoolError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return ToolFailed(
            f"{where}{error.strerror or error}", hint="`uenvtool --debug ...` shows where this comes from"
        )
    return ToolFailed(
        f"unexpected {type(error).__name__}: {error}",
        hint="please report this with your files and what `uenvtool --debug ...` prints",
    )


def _end_on_terminate() -> None:
    """Let a SIGTERM or SIGHUP end the command as Ctrl-C does: everything is cleaned up."""
    import signal

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


if __name__ == "__main__":
    main()

"""Runs the command line and turns what goes wrong into a message and an exit code."""

from __future__ import annotations

import gc
import sys

from uenvtool import __version__

INTERRUPTED = 130
"""As shells count an end by Ctrl-C."""


def main() -> None:
    """The entry point `uenvtool`."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is loaded
        sys.stdout.write(f"uenvtool {__version__}\n")
        return
    gc.disable()  # a command ends before cycles add up; looking for them takes 7 % of `build`
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
    """Run one command; its exit code."""
    _end_on_terminate()
    try:
        from uenvtool.cli import app

        code = app(args=arguments, prog_name="uenvtool", standalone_mode=True)
        sys.stdout.flush()
        return int(code or 0)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception as error:
        if "--debug" in arguments:
            raise
        from uenvtool.console import failure

        message, exit_code = _told(error)
        failure(message)
        return exit_code


def _told(error: Exception) -> tuple[str, int]:
    """What a user is told of an error, and the exit code."""
    from uenvtool.errors import ExitCode, Problem, UenvtoolError

    if isinstance(error, UenvtoolError):
        return str(error), int(error.exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        problem = Problem(
            f"{where}{error.strerror or error}", hint="`uenvtool --debug ...` shows where this comes from"
        )
    else:
        problem = Problem(
            f"unexpected {type(error).__name__}: {error}",
            hint="please report this with your files and what `uenvtool --debug ...` prints",
        )
    return str(problem), int(ExitCode.FAILED)


def _end_on_terminate() -> None:
    """Let a SIGTERM or SIGHUP end the command as Ctrl-C does: everything is cleaned up."""
    import signal

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def _silence_stdout() -> None:
    """Nobody reads any more (`uenvtool show | head`): keep the interpreter from saying so at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()

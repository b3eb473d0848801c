"""Runs the command line and turns what goes wrong into a message and an exit code."""

from __future__ import annotations

import sys

from uenvtool import __version__


def main() -> None:
    """The entry point `uenvtool`."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is loaded
        sys.stdout.write(f"uenvtool {__version__}\n")
        return
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    from uenvtool.errors import ExitCode, UenvtoolError

    _end_on_terminate()
    try:
        from uenvtool.cli import app

        code = app(args=arguments, prog_name="uenvtool", standalone_mode=True)
        sys.stdout.flush()
        return int(code or 0)
    except SystemExit as stop:
        return _exit_code(stop.code)
    except UenvtoolError as error:
        if "--debug" in arguments:
            raise
        from uenvtool.console import failure

        failure(str(error))
        return int(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        _silence_stdout()
        return int(ExitCode.DONE)
    except OSError as error:
        if "--debug" in arguments:
            raise
        from uenvtool.console import failure
        from uenvtool.errors import Problem

        where = f"{error.filename}: " if error.filename else ""
        failure(str(Problem(f"{where}{error.strerror or error}", hint="--debug shows where this comes from")))
        return int(ExitCode.FAILED)


def _end_on_terminate() -> None:
    """Let a SIGTERM or SIGHUP end the command as Ctrl-C does: everything is cleaned up."""
    import signal

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def _exit_code(code: object) -> int:
    if isinstance(code, int):
        return code
    return 0 if code is None else 1


def _silence_stdout() -> None:
    """Nobody reads any more (`uenvtool show | head`): keep the interpreter from saying so at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()

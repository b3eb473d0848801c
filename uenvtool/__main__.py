"""The entry point: runs the command line and turns what goes wrong into a message and an exit code."""

from __future__ import annotations

import gc
import os
import sys

from uenvtool import __version__

TYPE_CHECKING = False  # typing itself takes longer to load than --version may take to answer
if TYPE_CHECKING:
    from uenvtool.core.errors import UenvtoolError

COLLECT_AFTER = 200_000
"""Objects that come before the collector of cycles looks at them. A recipe is rendered with fewer; Python's
own 700 costs 7 % of `build`. Hours of work must not go without."""


def main() -> None:
    """Run `uenvtool` and leave with its exit code."""
    _end_silently_while_loading()
    _open_standard_streams()
    from uenvtool.core import processes

    try:
        try:
            processes.end_on_signals()
            gc.set_threshold(COLLECT_AFTER)
            _own_packages_first()
            _leave_the_owner_access()
            processes.leave(run(sys.argv[1:]))
        except KeyboardInterrupt:
            processes.leave(_interrupted())
    except KeyboardInterrupt:  # the signal itself, if a program that it ended told of it first
        processes.leave(_interrupted())


def _end_silently_while_loading() -> None:
    """Let Ctrl-C end the process without Python's traceback, as long as nothing has begun."""
    import _signal  # type: ignore[import-not-found]  # what the module signal is made of, without its enumerations

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def _leave_the_owner_access() -> None:
    """Keep of the umask what it takes from others: its owner can always use what the tool makes."""
    os.umask(os.umask(0o077) & 0o077)


def run(arguments: list[str]) -> int:
    """Run one command; its exit code. Whatever goes wrong has become a message on stderr."""
    from uenvtool.core import processes

    try:
        if arguments == ["--version"]:  # answered before anything is loaded
            return _print_version()
        from uenvtool.cli import call
        from uenvtool.core.console import flush

        try:
            code = call(arguments)
        finally:
            flush()
        return _interrupted() if code == processes.INTERRUPTED else code
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        return _interrupted() if processes.is_interrupted() else _failed(error, with_traceback="--debug" in arguments)


def _print_version() -> int:
    """Print it; the console, which takes longer to load, is asked only where stdout does not take it."""
    try:
        sys.stdout.write(f"uenvtool {__version__}\n")
        sys.stdout.flush()
    except OSError:
        from uenvtool.core.console import flush

        flush()
    return 0


def _interrupted() -> int:
    from uenvtool.core import processes

    processes.tell_interrupted()
    return processes.INTERRUPTED


def _failed(error: Exception, *, with_traceback: bool) -> int:
    """Tell the user of an error; the exit code."""
    from uenvtool.core.console import note

    if with_traceback:
        import traceback

        note("".join(traceback.format_exception(error)))
    known = _as_known(error)
    note(str(known))
    return int(known.exit_code)


def _as_known(error: Exception) -> UenvtoolError:
    import shlex

    from uenvtool.core.errors import BadInput, ToolFailed, UenvtoolError

    cause = error.__cause__ if isinstance(error, ToolFailed) else error
    if isinstance(cause, FileNotFoundError) and not os.path.isabs(cause.filename or "") and _is_adrift():
        return BadInput("the current folder is gone", hint="go to one that exists, and give the command again")
    if isinstance(error, UenvtoolError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        hint = "`uenvtool --debug ...` shows where this comes from"
        if isinstance(error, PermissionError) and error.filename:
            hint = f"`namei -l {shlex.quote(os.fsdecode(error.filename))}` shows which folder you may not enter"
        return ToolFailed(f"{where}{error.strerror or error}", hint=hint)
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):  # the latter: of a library
        return ToolFailed("there is not enough memory", hint="`ulimit -v` shows this shell's limit, --mem sets a job's")
    return ToolFailed(
        f"unexpected {type(error).__name__}: {error}",
        hint="please report this with your files and what `uenvtool --debug ...` prints",
    )


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

    What the tool starts still gets the variable.
    """
    own = os.path.dirname(os.path.dirname(_absolute(__file__)))
    named = {_absolute(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path} - {own}
    foreign = [path for path in sys.path if _absolute(path) in named]
    if foreign and not sys.flags.ignore_environment:
        sys.path[:] = [path for path in sys.path if path not in foreign] + foreign


def _absolute(path: str) -> str:
    """Return the absolute path; the path itself if the current folder is gone, and with it what is relative to it."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        return path


def _is_adrift() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


if __name__ == "__main__":
    main()

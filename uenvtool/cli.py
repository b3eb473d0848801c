"""The table of commands, by reader, with the package whose `cli.py` defines each command; and the error messages."""

from __future__ import annotations

import functools
import importlib
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from uenvtool import __version__
from uenvtool.core.errors import BadInput, ToolFailed, UenvtoolError

COMPLETION = "_UENVTOOL_COMPLETE"
"""The variable that a shell's completion sets when it calls uenvtool."""


class Command(NamedTuple):
    """The package that defines a command in its `cli.py`, and the summary in `--help`."""

    package: str
    summary: str


READERS = {
    "To run a job (if you know sbatch)": {
        "venv": Command("venv", "Install Python packages on top of a uenv or container."),
        "shell": Command("venv", "Open a shell in an overlay and its base."),
        "kernel": Command("venv", "Use an overlay as a Jupyter kernel."),
        "job": Command("job", "Write and submit a tuned multi-node job."),
        "check": Command("check", "Find problems in any batch script."),
        "attach": Command("job", "Open a shell next to a running rank."),
        "activate": Command("activation", "Print a script that sets network and library variables."),
        "explain": Command("activation", "Explain the value of a variable, with its reason and source."),
        "doctor": Command("doctor", "Diagnose slow or failing jobs from a shell, a log or a job ID."),
        "try": Command("trial", "Test whether a system is right and fast."),
    },
    "To build an image (if you run a site)": {
        "build": Command("env", "Write the Spack environment of a recipe, and resolve it."),
        "new": Command("knowledge", "Write a new recipe or system file with comments."),
        "edit": Command("env", "Add, remove and pin packages in your own recipe."),
        "validate": Command("env", "Find all problems in recipes and systems."),
        "image": Command("image", "Build images; show and check their contents."),
        "container": Command("container", "Write the Containerfile, EDF and CI pipeline of an image."),
    },
    "To look around": {
        "list": Command("knowledge", "List recipes, systems and other named items."),
        "show": Command("venv", "Show a recipe or system with its sources, or an overlay."),
        "diff": Command("trial", "Compare recipes, locks, images or two runs."),
        "schema": Command("knowledge", "Print the JSON Schema of a kind of file."),
    },
}
COMMANDS = {name: command for commands in READERS.values() for name, command in commands.items()}


class LazyCommands(TyperGroup):
    """The group of all commands, which imports the package of a command only when the command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called command, the command itself from its package, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


@functools.cache
def load(name: str) -> Any:
    """Return a command, or a group of commands, from its package."""
    module = importlib.import_module(f"uenvtool.{COMMANDS[name].package}.cli")
    return typer.main.get_group(module.app).commands[name]


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Every error is printed on stderr."""
    from uenvtool.core import console, processes, session

    session.make_safe()
    try:
        try:
            code = call(arguments)
        finally:
            console.flush()  # Typer prints some text itself, such as that of --help
    except KeyboardInterrupt:
        code = processes.INTERRUPTED
    except Exception as error:
        code = processes.INTERRUPTED if processes.is_interrupted() else _tell(error, arguments)
    if code == processes.INTERRUPTED:
        processes.tell_interrupted()
    return code


def call(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Raises BadInput if the command line is invalid."""
    try:
        return int(_program()(args=arguments, prog_name="uenvtool", standalone_mode=False) or 0)
    except typer.TyperException as error:
        raise _bad_input(error, arguments) from error
    except SystemExit as stop:
        if stop.code == 1 and COMPLETION not in os.environ:  # Typer exits with 1 if the pipe of --help is closed
            return 0
        raise


@functools.cache
def _program() -> Any:
    return typer.main.get_command(app)


def _bad_input(error: Any, arguments: Sequence[str]) -> BadInput:
    context = getattr(error, "ctx", None)
    command_name = [word for word in arguments[:1] if word in COMMANDS]
    command = context.command_path if context else " ".join(["uenvtool", *command_name])
    message = error.format_message().rstrip(".")
    hint = f"run `{command} --help` to see its arguments and options"
    if message.endswith("is not readable"):
        hint = "check its permissions: `ls -l`"
    elif command == "uenvtool job" and message.startswith(("Got unexpected", "No such option")):
        hint = f"put the program and its options after `--`: `uenvtool job -- python train.py --lr 1`; or {hint}"
    elif message.startswith("Missing argument") and "RECIPE" in message:
        hint = f"name one of `uenvtool list recipes`; or {hint}"
    return BadInput(message, hint=hint)


def _tell(error: Exception, arguments: Sequence[str]) -> int:
    from uenvtool.core import console

    if "--debug" in arguments:
        import traceback

        console.note("".join(traceback.format_exception(error)))
    shown_error = failure(error)
    console.note(str(shown_error))
    return int(shown_error.exit_code)


def failure(error: Exception) -> UenvtoolError:
    """Return an exception as an error for the user: unchanged if it is a UenvtoolError, or else the best match."""
    if isinstance(error, FileNotFoundError) and not os.path.isabs(error.filename or "") and _is_directory_removed():
        hint = "change to a directory that exists, and run the command again"
        return BadInput("the current directory does not exist", hint=hint)
    if isinstance(error, UenvtoolError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        hint = "run `uenvtool --debug ...` to see where the error occurs"
        if isinstance(error, PermissionError) and error.filename:
            path = shlex.quote(os.fsdecode(error.filename))
            hint = f"run `namei -l {path}` to see which directory you may not enter"
        return ToolFailed(f"{where}{error.strerror or error}", hint=hint)
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):  # a library could not be loaded
        hint = "raise this shell's limit (`ulimit -v`), or request more memory for the job with --mem"
        return ToolFailed("there is not enough memory", hint=hint)
    return ToolFailed(
        f"unexpected {type(error).__name__}: {error}",
        hint="please report this, with your files and the output of `uenvtool --debug ...`",
    )


def _is_directory_removed() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def contexts() -> Iterator[typer.Context]:
    """Yield the contexts of the program and of all its commands, for manual pages and tests."""
    context = typer.Context(_program(), info_name="uenvtool")
    yield context
    for name in COMMANDS:
        yield from _contexts(load(name), context, name)


def _contexts(command: Any, parent: typer.Context, name: str) -> Iterator[typer.Context]:
    context = typer.Context(command, info_name=name, parent=parent)
    yield context
    for subcommand_name, subcommand in getattr(command, "commands", {}).items():
        yield from _contexts(subcommand, context, subcommand_name)


def _version(is_given: bool) -> None:
    if is_given:
        from uenvtool.core import console
        from uenvtool.core.result import Result

        raise typer.Exit(console.show(Result(text=f"uenvtool {__version__}")))


app = typer.Typer(
    cls=LazyCommands,
    help="Install packages on a site's PyTorch, write Slurm jobs, and diagnose them.",
    epilog="Exit codes: 0 done, 1 the answer is no, 2 bad input or usage, 3 an external program is not installed, "
    "4 an external program failed, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Print the next steps if no command is named."""
    if context.invoked_subcommand is None:
        from uenvtool import start
        from uenvtool.core import console

        raise typer.Exit(console.show(start.start(os.environ)))


def _listed() -> None:
    """Stand in for a command in `--help` until the command is loaded."""


for panel, commands in READERS.items():
    for command, (_, summary) in commands.items():
        app.command(command, help=summary, rich_help_panel=panel)(_listed)

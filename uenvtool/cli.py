"""The table of commands: who needs each one, and the room whose `cli.py` has it."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from uenvtool import __version__
from uenvtool.core.errors import BadInput

COMPLETION = "_UENVTOOL_COMPLETE"
"""The variable with which a shell's completion calls the program."""
MOVED = {
    "job check": "check",
    "job attach": "attach",
    "venv info": "show",
    "container tag": "container --tag",
}
"""What was a word behind a command, and what it is now; an overlay of the name `info` is `./info`."""


class Command(NamedTuple):
    """The room that has the command in its `cli.py`, and the sentence that `--help` shows."""

    room: str
    sentence: str


READERS = {
    "To run a job (if you know sbatch)": {
        "venv": Command("venv", "Lay Python packages of your own over a uenv or container."),
        "shell": Command("venv", "Open a shell in an overlay on its base."),
        "kernel": Command("venv", "Start an overlay from Jupyter."),
        "job": Command("job", "Write and submit a tuned multi-node job."),
        "check": Command("check", "Find the flaws of any batch script."),
        "attach": Command("job", "Open a shell beside a rank of a running job."),
        "activate": Command("activation", "Set the network and the libraries up in a shell or a job."),
        "explain": Command("activation", "Say what a variable is set to, why, and who says so."),
        "doctor": Command("doctor", "Say what is slow or wrong, in a shell or a job's output."),
    },
    "To build an image (if you run a site)": {
        "build": Command("env", "Write the Spack environment of a recipe and resolve it."),
        "new": Command("knowledge", "Write a commented recipe or system of your own."),
        "edit": Command("env", "Add, remove and pin packages in a recipe of your own."),
        "validate": Command("env", "Find everything that is wrong in recipes and systems."),
        "image": Command("image", "Build images; show and check what is in them."),
        "container": Command("container", "Write the Containerfile, EDF and pipeline of an image."),
    },
    "To look around": {
        "list": Command("knowledge", "List the recipes and systems, or what else has a name."),
        "show": Command("venv", "Show a recipe or system, and where each value is from; or an overlay."),
        "diff": Command("image", "Compare recipes, environments, locks or images."),
        "schema": Command("knowledge", "Print the JSON Schema of a kind of file."),
    },
}
COMMANDS = {name: command for commands in READERS.values() for name, command in commands.items()}


class Rooms(TyperGroup):
    """The group of all commands: it lists them without their rooms, and loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words name, as its room has it, and the words behind it."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else None, rest


@functools.cache
def load(name: str) -> Any:
    """Return a command, or a group of commands, from its room."""
    room = importlib.import_module(f"uenvtool.{COMMANDS[name].room}.cli")
    return typer.main.get_group(room.app).commands[name]


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Whatever goes wrong has become a message on stderr."""
    from uenvtool.core import console, processes

    try:
        try:
            code = call(arguments)
        finally:
            console.flush()  # of what Typer printed, such as the text of --help
    except KeyboardInterrupt:
        code = processes.INTERRUPTED
    except Exception as error:
        code = processes.INTERRUPTED if processes.is_interrupted() else _tell(error, arguments)
    if code == processes.INTERRUPTED:
        processes.tell_interrupted()
    return code


def call(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Raises BadInput for a command line that is none."""
    if moved := MOVED.get(" ".join(arguments[:2])):
        raise BadInput(f"there is no `uenvtool {' '.join(arguments[:2])}`", hint=f"it is `uenvtool {moved}`")
    try:
        return int(_program()(args=arguments, prog_name="uenvtool", standalone_mode=False) or 0)
    except typer.TyperException as error:
        raise _bad_input(error, arguments) from error
    except SystemExit as stop:
        if stop.code == 1 and COMPLETION not in os.environ:  # Typer ends so if the reader of --help has left
            return 0
        raise


@functools.cache
def _program() -> Any:
    """Return the group of all commands, as click has it."""
    return typer.main.get_command(app)


def _bad_input(error: Any, arguments: Sequence[str]) -> BadInput:
    """Return what is wrong with a command line, and the way out."""
    context = getattr(error, "ctx", None)
    named = [word for word in arguments[:1] if word in COMMANDS]
    command = context.command_path if context else " ".join(["uenvtool", *named])
    message = error.format_message().rstrip(".")
    hint = f"`{command} --help` shows what it takes"
    if message.endswith("is not readable"):
        hint = "check its permissions: `ls -l`"
    elif command == "uenvtool job" and message.startswith(("Got unexpected", "No such option")):
        hint = f"a program and its options stand behind `--`: `uenvtool job -- python train.py --lr 1`; {hint}"
    elif message.startswith("Missing argument") and "RECIPE" in message:
        hint = f"`uenvtool list recipes` shows them; {hint}"
    return BadInput(message, hint=hint)


def _tell(error: Exception, arguments: Sequence[str]) -> int:
    """Tell the user of an error; the exit code."""
    from uenvtool.core import console
    from uenvtool.failure import failure

    if "--debug" in arguments:
        import traceback

        console.note("".join(traceback.format_exception(error)))
    told = failure(error)
    console.note(str(told))
    return int(told.exit_code)


def contexts() -> Iterator[typer.Context]:
    """Yield the context of the program and of each command below it, from which manual pages and tests are made."""
    context = typer.Context(_program(), info_name="uenvtool")
    yield context
    for name in COMMANDS:
        yield from _contexts(load(name), context, name)


def _contexts(command: Any, parent: typer.Context, name: str) -> Iterator[typer.Context]:
    context = typer.Context(command, info_name=name, parent=parent)
    yield context
    for below, found in getattr(command, "commands", {}).items():
        yield from _contexts(found, context, below)


def _version(wanted: bool) -> None:
    if wanted:
        from uenvtool.core import console
        from uenvtool.core.result import Result

        raise typer.Exit(console.show(Result(text=f"uenvtool {__version__}")))


app = typer.Typer(
    cls=Rooms,
    help="From nothing to a tuned PyTorch job on an HPC system.",
    epilog="Exit codes: 0 done, 1 the answer is no, 2 bad input or usage, 3 an external program is missing, "
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
    """Say where to begin, if no command is named."""
    if context.invoked_subcommand is None:
        from uenvtool import start
        from uenvtool.core import console

        raise typer.Exit(console.show(start.start(os.environ)))


def _listed() -> None:
    """Stand in the list of commands for one that is loaded when it is called."""


for panel, commands in READERS.items():
    for command, (_, sentence) in commands.items():
        app.command(command, help=sentence, rich_help_panel=panel)(_listed)

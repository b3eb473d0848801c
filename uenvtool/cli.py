"""The table of commands: who needs each one, and the room whose `cli.py` has its arguments."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from uenvtool.core.words import wrapped

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What the library raises for a wrong command line; newer releases carry a click of their own, which has no name."""
Context: Any = typer.Context.__mro__[1]
"""What the library makes for each command; it has no name either."""
COMPLETION = "_UENVTOOL_COMPLETE"
"""The variable with which a shell's completion calls the program."""


class Command:
    """The folder whose `cli.py` has the command as a function of its name, and the sentence that `--help` shows."""

    def __init__(self, folder: str, sentence: str) -> None:
        self.folder, self.sentence = folder, sentence


READERS = {
    "To run a job (if you know sbatch)": {
        "venv": Command("venv", "Lay Python packages of your own over a uenv or container."),
        "shell": Command("venv", "Open a shell in an overlay on its base."),
        "kernel": Command("venv", "Start an overlay from Jupyter."),
        "job": Command("job", "Write and submit a tuned multi-node job; check batch scripts."),
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
        "show": Command("knowledge", "Show a recipe or system, and where each value is from."),
        "diff": Command("image", "Compare recipes, environments, locks or images."),
        "schema": Command("knowledge", "Print the JSON Schema of a kind of file."),
    },
}
COMMANDS = {name: command for commands in READERS.values() for name, command in commands.items()}


class Help(Context.formatter_class):  # type: ignore[misc]
    """The text of --help at a terminal's width; the library's own has 50 columns at least, and breaks commands."""

    def __init__(self, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(width=width or max(min(shutil.get_terminal_size().columns, max_width or 80) - 2, 20))

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        indent = " " * self.current_indent
        paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
        parts = ("\n".join(wrapped(part, self.width, indent, indent)) for part in paragraphs)
        self.write("\n\n".join(parts) + "\n")

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names, each with its text beside it; the text of a long name is below."""
        longest = min(max(len(name) for name, _ in rows), col_max, max(self.width // 2 - 9, 8))
        indent, gap = " " * self.current_indent, " " * col_spacing
        below = f"{indent}{' ' * longest}{gap}"
        for name, text in rows:
            beside = f"{indent}{name:{longest}}{gap}" if len(name) <= longest else f"{indent}{name}\n{below}"
            self.write("\n".join(wrapped(text, self.width, below, below)).replace(below, beside, 1) + "\n")


Context.formatter_class = Help


class ByReader(TyperGroup):
    """The group of all commands, whose help lists them by who needs them; each one is loaded when it is named."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, None if there is none."""
        return _loaded(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the options."""
        for reader, commands in READERS.items():
            with formatter.section(reader):
                formatter.write_dl([(name, command.sentence) for name, command in commands.items()])


def call(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Raises BadInput for a command line that is none."""
    from uenvtool.core.errors import BadInput

    try:
        app = application()
        return int(app(args=arguments, prog_name="uenvtool", standalone_mode=False) or 0)
    except UsageError as error:
        context = getattr(error, "ctx", None)
        named = [word for word in arguments[:1] if word in COMMANDS]
        command = context.command_path if context else " ".join(["uenvtool", *named])
        message = (error.format_message() if hasattr(error, "format_message") else str(error)).rstrip(".")
        raise BadInput(message, hint=_way_out(command, message)) from error
    except SystemExit as stop:
        if COMPLETION in os.environ:
            raise
        if stop.code == 1:  # typer ends so if the reader of --help has left
            return 0
        raise


def _way_out(command: str, message: str) -> str:
    usual = f"`{command} --help` shows what it takes"
    if message.endswith("is not readable"):
        return "check its permissions: `ls -l`"
    if command == "uenvtool job" and message.startswith(("Got unexpected", "No such option")):
        return f"a program and its options stand behind `--`: `uenvtool job -- python train.py --lr 1`; {usual}"
    is_recipe = message.startswith("Missing argument") and "RECIPE" in message
    kind = "containers" if command.startswith("uenvtool container") else "recipes"
    return f"`uenvtool list {kind}` shows them; {usual}" if is_recipe else usual


def _version(wanted: bool) -> None:
    if wanted:
        from uenvtool import __version__
        from uenvtool.core import console
        from uenvtool.core.result import Result

        raise typer.Exit(console.show(Result(text=f"uenvtool {__version__}")))


def main(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Say where to begin, if no command is named."""
    if context.invoked_subcommand is None:
        from uenvtool import start
        from uenvtool.core import console

        raise typer.Exit(console.show(start.start(os.environ)))


def application() -> typer.Typer:
    """Return the program."""
    app = typer.Typer(
        name="uenvtool",
        cls=ByReader,
        help="From nothing to a tuned PyTorch job on an HPC system.",
        epilog="Exit codes: 0 done, 1 the answer is no, 2 bad input or usage, 3 an external program is missing, "
        "4 an external program failed, 130 interrupted.",
        rich_markup_mode=None,  # rich takes longer to load than --help may take to answer
        pretty_exceptions_enable=False,  # errors are told by __main__, without traceback
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    )
    app.callback(invoke_without_command=True)(main)
    return app


def contexts() -> Iterator[Any]:
    """Yield the context of the program and of each command and verb, from which help, pages and tests are made."""
    group: Any = typer.main.get_command(application())
    context = group.make_context("uenvtool", [], resilient_parsing=True)
    yield context
    for name in COMMANDS:
        yield from _contexts(group.get_command(context, name), context, name)


def _contexts(command: Any, parent: Any, name: str) -> Iterator[Any]:
    context = type(parent)(command, info_name=name, parent=parent, max_content_width=80, terminal_width=80)
    yield context
    for below, found in (getattr(command, "commands", None) or {}).items():
        yield from _contexts(found, context, below)
    for verb, app in getattr(command, "verbs", {}).items():
        yield from _contexts(typer.main.get_command(app), parent, f"{name} {verb}")


def _loaded(name: str) -> Any:
    """Load a command, or a group of commands, from its room; CLASS of a room has its command's class, or several."""
    module = importlib.import_module(f"uenvtool.{COMMANDS[name].folder}.cli")
    found = getattr(module, {"list": "list_"}.get(name, name))
    app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        classes = getattr(module, "CLASS", None)
        cls = classes.get(name) if isinstance(classes, dict) else classes
        app.command(name, cls=cls, short_help=COMMANDS[name].sentence)(found)
    return typer.main.get_group(app).commands[name]

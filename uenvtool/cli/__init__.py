"""The command line: one module a command, each with arguments in, one call, result out."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence

import typer

from uenvtool.cli.readers import SENTENCES, ByReader

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What the library raises for a wrong command line; newer releases carry a click of their own, which has no name."""
COMPLETION = "_UENVTOOL_COMPLETE"
"""The variable with which a shell's completion calls the program."""


def call(arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Raises BadInput for a command line that is none."""
    from uenvtool.errors import BadInput

    try:
        app = application(arguments)
        return int(app(args=arguments, prog_name="uenvtool", standalone_mode=False) or 0)
    except UsageError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "uenvtool"
        message = (error.format_message() if hasattr(error, "format_message") else str(error)).rstrip(".")
        hint = f"`{command} --help` shows what it takes"
        if message.endswith("is not readable"):
            hint = "check its permissions: ls -l"
        raise BadInput(message, hint=hint) from error
    except SystemExit as stop:
        if COMPLETION in os.environ:
            raise
        if stop.code == 1:  # typer ends so if the reader of --help has left
            return 0
        raise


def _version(wanted: bool) -> None:
    if wanted:
        from uenvtool import __version__, console
        from uenvtool.result import Result

        raise typer.Exit(console.show(Result(text=f"uenvtool {__version__}")))


def main(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Without a command: where to begin."""
    if context.invoked_subcommand is None:
        from uenvtool import console
        from uenvtool.commands import start as command

        raise typer.Exit(console.show(command.start(os.environ)))


def application(words: Sequence[str]) -> typer.Typer:
    """The program with the command that the first word names, which need not wait for the others to load.

    Any other first word, --help and a shell's completion want all of them.
    """
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
    named = words[0] if words and COMPLETION not in os.environ else ""
    for name in [named] if named in SENTENCES else SENTENCES:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    """Add the command or the group of commands that the module of that name holds; its class is in CLASS."""
    module = importlib.import_module(f"uenvtool.cli.{name}")
    found = getattr(module, {"list": "list_"}.get(name, name))
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name, cls=getattr(module, "CLASS", None), short_help=SENTENCES[name])(found)

"""The command line: one module a command, each with arguments in, one call, result out."""

from __future__ import annotations

import typer

from uenvtool.cli.activate import activate
from uenvtool.cli.build import build
from uenvtool.cli.diff import diff
from uenvtool.cli.explain import explain
from uenvtool.cli.list import list_
from uenvtool.cli.schema import schema
from uenvtool.cli.show import show
from uenvtool.cli.validate import validate
from uenvtool.cli.venv import WithVerbs, venv

app = typer.Typer(
    name="uenvtool",
    help="From nothing to a tuned PyTorch job on an HPC system.",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich takes longer to load than --help may take to answer
    pretty_exceptions_enable=False,  # errors are told by __main__, without traceback
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from uenvtool import __version__

        typer.echo(f"uenvtool {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """From nothing to a tuned PyTorch job on an HPC system.

    Exit codes: 0 done, 1 the answer is no, 2 bad input or usage, 3 an external program is missing,
    4 an external program failed, 130 interrupted.
    """


app.command()(build)
app.command("list")(list_)
app.command()(show)
app.command()(validate)
app.command()(diff)
app.command()(schema)
app.command()(activate)
app.command()(explain)
app.command(cls=WithVerbs)(venv)

"""`uenvtool job`: the check of batch scripts."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.cli.options import JSON
from uenvtool.cli.verbs import with_verbs


def check(
    files: list[Path] = typer.Argument(..., metavar="FILE...", help="Batch scripts and EDFs."),
    system: str | None = typer.Option(None, "--system", "-s", metavar="SYSTEM", help="The system that they are for."),
    json_: bool = JSON,
) -> int:
    """Find the flaws of batch scripts and EDFs, also of those that nobody here wrote.

    Exit code 1 if there is one. A comment `# uenvtool: ignore RULE` on a line keeps a rule from it.
    """
    from uenvtool import console
    from uenvtool.commands.job.check import check as command

    return console.show(command(files, system), as_json=json_)


def job(context: typer.Context) -> int:
    """Check batch scripts: uenvtool job check FILE..."""
    from uenvtool import console
    from uenvtool.result import Result

    return console.show(Result(text=context.get_help()))


Job = with_verbs({"check": check})

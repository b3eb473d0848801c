"""`uenvtool explain`: why a variable is what it is."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON, SYSTEM


def explain(
    names: list[str] = typer.Argument(None, metavar="[VAR...]", help="Variables; with --diff, two sources."),
    everything: bool = typer.Option(False, "--all", help="Every variable."),
    diff: bool = typer.Option(False, "--diff", help="Compare two sources: explain --diff guide docs-2026."),
    system: str | None = SYSTEM,
    json_: bool = JSON,
) -> int:
    """Explain variables: what each is set to, when, why, and what the sources say."""
    from uenvtool import console
    from uenvtool.commands import explain as command

    given = names or []
    result = command.compare(given) if diff else command.explain(given, everything, system)
    return console.show(result, as_json=json_)

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
) -> None:
    """Say what variables are set to, when, why, who says so since when, and what other sources say."""
    from uenvtool import console
    from uenvtool.commands import explain as explaining
    from uenvtool.errors import BadInput

    given = names or []
    if diff:
        if len(given) != 2:
            raise BadInput("--diff takes two sources", hint="for example: uenvtool explain --diff guide docs-2026")
        rows = explaining.difference(*given)
        if json_:
            console.result_json([{"name": name, given[0]: one, given[1]: other} for name, one, other in rows])
        else:
            console.result(console.table(("variable", *given), rows))
            console.note("-: says nothing of it")
        return
    entries = explaining.explain(given, everything, system)
    if json_:
        console.result_json(entries)
    else:
        console.result(explaining.as_text(entries))

"""`uenvtool explain`: why a variable is what it is, and what will be set in a job."""

from __future__ import annotations

import typer

from uenvtool.cli import complete
from uenvtool.cli.options import JSON


def explain(
    names: list[str] = typer.Argument(
        None,
        metavar="[VAR|ID...]",
        help="Variables, rules of job check, findings of doctor; with --diff, two sources.",
        autocompletion=complete.variables,
    ),
    everything: bool = typer.Option(False, "--all", help="Explain every variable."),
    diff: bool = typer.Option(False, "--diff", help="Compare two sources, such as guide and docs-2026."),
    system: str | None = typer.Option(
        None, "--system", "-s", metavar="SYSTEM", help="Say what is set there.", autocompletion=complete.systems
    ),
    runtime: str | None = typer.Option(
        None, "--runtime", metavar="NAME", help="Say what is set in this runtime.", autocompletion=complete.runtimes
    ),
    recipe: str | None = typer.Option(
        None, "--recipe", metavar="RECIPE", help="Say what is set with its versions.", autocompletion=complete.recipes
    ),
    nccl: str | None = typer.Option(None, "--nccl", metavar="VERSION", help="Say what is set with this NCCL."),
    json_: bool = JSON,
) -> int:
    """Explain variables: what each is set to, when, why, and what the sources say; rules and findings too."""
    from uenvtool import console
    from uenvtool.commands import explain as command

    given = names or []
    if diff:
        return console.show(command.compare(given), as_json=json_)
    result = command.explain(
        given,
        everything=everything,
        system=system,
        runtime=runtime,
        recipe=recipe,
        facts={"nccl": nccl} if nccl is not None else {},
    )
    return console.show(result, as_json=json_)

"""The arguments of `activate` and `explain`."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import JSON, THIS_SYSTEM, UARCH


def _shells(incomplete: str) -> list[str]:
    from uenvtool.activation.formats import FORMATS
    from uenvtool.activation.shells import shells

    return complete.starting(incomplete, [*shells(), *FORMATS])


def activate(
    system: str | None = THIS_SYSTEM,
    uarch: str | None = UARCH,
    runtime: str | None = typer.Option(
        None,
        "--runtime",
        metavar="NAME",
        help="The runtime, such as uenv or ce; default: seen in the job.",
        autocompletion=complete.runtimes,
    ),
    recipe: str | None = typer.Option(
        None, "--recipe", metavar="RECIPE", help="Take the versions of a recipe.", autocompletion=complete.recipes
    ),
    nccl: str | None = typer.Option(None, "--nccl", metavar="VERSION", help="The version of NCCL, if it is known."),
    fact: list[str] = typer.Option([], "--fact", metavar="NAME=VALUE", help="Another fact, such as image=alps."),
    shell: str = typer.Option(
        "bash",
        "--shell",
        metavar="NAME",
        help="bash, zsh, fish; or a file: csh, edf, docker, podman, dotenv, slurm, json.",
        autocompletion=_shells,
    ),
    venv: str | None = typer.Option(None, "--venv", metavar="PATH", help="A virtual environment to activate too."),
    workaround: list[str] = typer.Option(
        [],
        "--workaround",
        metavar="NAME",
        help="Set this workaround too; may be given again.",
        autocompletion=complete.workarounds,
    ),
    check: bool = typer.Option(False, "--check", help="Exit 1 with a diff if activate/ is not up to date."),
    write: bool = typer.Option(False, "--write", help="Write activate/ anew, one script a system and shell."),
    force: bool = typer.Option(False, "--force", help="With --write: replace scripts that were changed by hand."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="DIR", help="For --check and --write.", show_default="activate"
    ),
) -> int:
    """Print what sets a shell up for a system: eval "$(uenvtool activate)", or source activate/SYSTEM.sh."""
    from uenvtool.activation import activate as command
    from uenvtool.core import console
    from uenvtool.core.errors import BadInput
    from uenvtool.knowledge.options import named_texts

    if output and not (check or write):
        raise BadInput("-o names the folder of --write and --check", hint="one script goes to stdout: > FILE keeps it")
    folder = output or Path("activate")
    if check:
        return console.show(command.check(folder))
    if write:
        return console.show(command.write(folder, force=force))
    result = command.activate(
        system,
        uarch=uarch,
        runtime=runtime,
        recipe=recipe,
        facts={**named_texts(fact, "--fact"), **({"nccl": nccl} if nccl is not None else {})},
        workarounds=workaround,
        venv=venv,
        shell=shell,
    )
    return console.show(result)


def explain(
    names: list[str] = typer.Argument(
        None,
        metavar="[VAR|ID...]",
        help="Variables, rules of job check, findings of doctor; with --diff, sources.",
        autocompletion=complete.variables,
    ),
    everything: bool = typer.Option(False, "--all", help="Explain every variable."),
    diff: bool = typer.Option(False, "--diff", help="Compare sources, such as hpe and docs-2026."),
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
    from uenvtool.activation import explain as command
    from uenvtool.core import console

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

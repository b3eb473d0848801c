"""`uenvtool activate`: the script, or the variables, that tune a shell or a job for a system."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.cli import complete
from uenvtool.cli.options import THIS_SYSTEM, UARCH


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
        help="bash, zsh, fish, tcsh; or a file: edf, docker, podman, dotenv, slurm, json.",
        autocompletion=complete.shells,
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
    from uenvtool import console
    from uenvtool.cli.options import named_texts
    from uenvtool.commands import activate as command
    from uenvtool.errors import BadInput

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

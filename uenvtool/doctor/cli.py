"""`uenvtool doctor`: says what is slow or wrong."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import JSON, THIS_SYSTEM


def doctor(
    files: list[Path] = typer.Argument(None, metavar="[FILE...]", help="Logs; - is a pipe.", allow_dash=True),
    log: list[Path] = typer.Option([], "--log", metavar="FILE", help="A job's output, also as gzip.", allow_dash=True),
    system: str | None = THIS_SYSTEM,
    runtime: str | None = typer.Option(
        None,
        "--runtime",
        metavar="NAME",
        help="The runtime; default: what is loaded.",
        autocompletion=complete.runtimes,
    ),
    recipe: str | None = typer.Option(
        None, "--recipe", metavar="RECIPE", help="The recipe whose versions count.", autocompletion=complete.recipes
    ),
    job: str | None = typer.Option(None, "--job", metavar="ID", help="What Slurm has of a job: script, output, end."),
    ranks: bool = typer.Option(False, "--ranks", help="Under srun: every rank looks, and one reports."),
    folder: Path | None = typer.Option(None, "--folder", metavar="PATH", help="Where the ranks write what they see."),
    wait: float = typer.Option(60, "--wait", metavar="SECONDS", min=0, help="How long the ranks are waited for."),
    fix: bool = typer.Option(False, "--fix", help="Print what mends it, ready to paste; nothing is changed."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say all of each finding: why, what to do."),
    json_: bool = JSON,
) -> int:
    """Say what is slow or wrong, the worst first, in this shell, job or container.

    With `--log job.out` it reads a job's output instead, with `--job 123456` whatever Slurm has of a
    job; with `srun uenvtool doctor --ranks` every rank of a job looks. Exit code 1 if something is
    wrong. `uenvtool explain ID` says all of a finding.
    """
    from uenvtool.core import console
    from uenvtool.doctor.doctor import doctor as command

    result = command(
        logs=[*log, *(files or [])], system=system, runtime=runtime, recipe=recipe, job=job, ranks=ranks,
        folder=folder, seconds=wait, fix=fix, verbose=verbose,
    )  # fmt: skip
    return console.show(result, as_json=json_) if result else 0  # another rank reports

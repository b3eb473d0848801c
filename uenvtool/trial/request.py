"""The request of `uenvtool try`: its options and arguments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.job.request import ADVANCED, SLURM, SharedOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class TryRequest(SharedOptions):
    """The options of `uenvtool try`, which runs the tests in a new job, or reads the results of an earlier one."""

    folder: Annotated[
        Path | None, Argument(metavar="[DIR]", help="The log directory of an earlier run, whose results to show.")
    ] = None
    account: Annotated[str, Option("--account", "-A", metavar="NAME", help="Your project in Slurm.")] = ""
    partition: Annotated[
        str, Option("--partition", "-p", metavar="NAME", help="The partition.", rich_help_panel=SLURM)
    ] = ""
    time: Annotated[str, Option("--time", "-t", metavar="TIME", help="The time limit.", rich_help_panel=SLURM)] = "10"
    option: Annotated[
        tuple[str, ...],
        Option("--option", metavar="OPTION", help="An additional sbatch option.", rich_help_panel=SLURM),
    ] = ()
    wait: Annotated[bool, Option("--wait/--no-wait", help="Wait for the job and show its results.")] = True
    record: Annotated[
        bool, Option("--record", help="Store the figures without a reference as your own references.")
    ] = False
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE.svg", help="Plot the bandwidth over the message size.")
    ] = None
    force: Annotated[
        bool, Option("--force", help="Replace files that were changed by hand.", rich_help_panel=ADVANCED)
    ] = False
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the job; write and submit nothing.", rich_help_panel=ADVANCED)
    ] = False

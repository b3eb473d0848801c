"""The request of `uenvtool try`: its options and arguments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.job.request import Account, DryRun, Force, FurtherOptions, Partition, SharedOptions, Time


@dataclass(frozen=True, kw_only=True, slots=True)
class TryRequest(SharedOptions):
    """The options of `uenvtool try`, which runs the tests in a new job, or reads the results of an earlier one."""

    folder: Annotated[
        Path | None, Argument(metavar="[DIR]", help="The log directory of an earlier run, whose results to show.")
    ] = None
    account: Account = ""
    partition: Partition = ""
    time: Time = "10"
    option: FurtherOptions = ()
    wait: Annotated[bool, Option("--wait/--no-wait", help="Wait for the job and show its results.")] = True
    record: Annotated[
        bool, Option("--record", help="Store the figures without a reference as your own references.")
    ] = False
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE.svg", help="Plot the bandwidth over the message size.")
    ] = None
    force: Force = False
    dry_run: DryRun = False

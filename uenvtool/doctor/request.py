"""The arguments and options of `uenvtool doctor`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import ThisSystemName


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorRequest:
    """The options of `uenvtool doctor`, which reads logs, or else a Slurm job, all ranks of this job, or this shell."""

    files: Annotated[
        tuple[Path, ...],
        Argument(metavar="[FILE...]", help="Logs or dump directories; - is standard input.", allow_dash=True),
    ] = ()
    log: Annotated[
        tuple[Path, ...],
        Option("--log", metavar="FILE", help="A job's output, plain or compressed with gzip.", allow_dash=True),
    ] = ()
    system: ThisSystemName = None
    runtime: Annotated[
        str | None,
        Option(
            "--runtime",
            metavar="NAME",
            help="The runtime; default: the one that is loaded.",
            autocompletion=complete.runtimes,
        ),
    ] = None
    recipe: Annotated[
        str | None,
        Option(
            "--recipe",
            metavar="RECIPE",
            help="The recipe whose package versions select the tuning.",
            autocompletion=complete.recipes,
        ),
    ] = None
    job: Annotated[
        str | None,
        Option("--job", metavar="ID", help="Diagnose a Slurm job by ID from its script, output and exit state."),
    ] = None
    hang: Annotated[bool, Option("--hang", help="With --job: show where each rank of the running job waits.")] = False
    stack: Annotated[
        bool, Option("--stack", help="List the libraries of NCCL, network, MPI and GPU, and which ones are used.")
    ] = False
    ranks: Annotated[bool, Option("--ranks", help="Under srun: check every rank and print one report.")] = False
    folder: Annotated[
        Path | None,
        Option("--folder", metavar="PATH", help="A shared directory in which the ranks exchange their results."),
    ] = None
    wait: Annotated[
        float, Option("--wait", metavar="SECONDS", min=0, help="The maximum time to wait for the ranks.")
    ] = 60
    output: Annotated[
        Path | None,
        Option(
            "--output", "-o", metavar="FILE.svg", help="Plot the bandwidth that a network test in the log measured."
        ),
    ] = None
    force: Annotated[bool, Option("--force", help="Replace the -o file even if it was edited by hand.")] = False
    fix: Annotated[bool, Option("--fix", help="Print commands that fix the problems; change nothing.")] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print the reason, fix and source of each finding.")] = (
        False
    )

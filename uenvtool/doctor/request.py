"""What `uenvtool doctor` is asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import ThisSystemName


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorRequest:
    """A request to look at logs, else at a job that Slurm knows, else at all ranks of this job, else at this shell."""

    files: Annotated[tuple[Path, ...], Argument(metavar="[FILE...]", help="Logs; - is a pipe.", allow_dash=True)] = ()
    log: Annotated[
        tuple[Path, ...], Option("--log", metavar="FILE", help="A job's output, also as gzip.", allow_dash=True)
    ] = ()
    system: ThisSystemName = None
    runtime: Annotated[
        str | None,
        Option(
            "--runtime", metavar="NAME", help="The runtime; default: what is loaded.", autocompletion=complete.runtimes
        ),
    ] = None
    recipe: Annotated[
        str | None,
        Option("--recipe", metavar="RECIPE", help="The recipe whose versions count.", autocompletion=complete.recipes),
    ] = None
    job: Annotated[str | None, Option("--job", metavar="ID", help="What Slurm has of a job: script, output, end.")] = (
        None
    )
    ranks: Annotated[bool, Option("--ranks", help="Under srun: every rank looks, and one reports.")] = False
    folder: Annotated[Path | None, Option("--folder", metavar="PATH", help="Where the ranks write what they see.")] = (
        None
    )
    wait: Annotated[float, Option("--wait", metavar="SECONDS", min=0, help="How long the ranks are waited for.")] = 60
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE.svg", help="Draw the bandwidth of a test of the network.")
    ] = None
    force: Annotated[bool, Option("--force", help="Replace a file of -o that was changed by hand.")] = False
    fix: Annotated[bool, Option("--fix", help="Print what mends it, ready to paste; nothing is changed.")] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="Say all of each finding: why, what to do.")] = False

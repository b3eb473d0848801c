"""Opens a shell or runs a command next to a rank of a running job, with its node, environment and directory.

Slurm can start more steps in a running job (`srun --overlap`). The first step finds the ranks on all nodes. The second
step runs on the node of one rank and uses the variables, the directory and the uenv or container of that process.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from uenvtool.core import processes
from uenvtool.core.errors import AnswerIsNo, BadInput, ToolFailed, ToolMissing
from uenvtool.core.session import mounted_images

PID = "{pid}"
"""The placeholder in a command for the process ID of the rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """A process of a rank in a running job. pages: its number of resident pages. uenvs: its UENV_MOUNT_LIST."""

    rank: int
    node: str
    pid: int
    pages: int
    uenvs: str


def attach(job: str, rank: int, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process with a shell or a command that runs next to a rank.

    Raises ToolMissing if Slurm is not installed, and AnswerIsNo if the job or the rank does not exist.
    """
    ranks = ranks_of(job, environ)
    chosen = next((candidate for candidate in ranks if candidate.rank == rank), None)
    if chosen is None:
        known = ", ".join(str(candidate.rank) for candidate in ranks)
        hint = "name one of these ranks with --rank" if known else "wait until the job has started its ranks"
        raise AnswerIsNo(
            f"job {job} has no rank {rank} that runs as you" + (f", only {known}" if known else ""),
            hint=f"{hint}; a rank has RANK or SLURM_PROCID in its environment",
        )
    arguments = [word.replace(PID, str(chosen.pid)) for word in command]
    has_terminal = sys.stdin.isatty() and not arguments
    processes.become([*_step_arguments(job, chosen, has_terminal=has_terminal), *arguments], environ)


def ranks_of(job: str, environ: Mapping[str, str]) -> list[Rank]:
    """Return the ranks of a running job that belong to this user.

    Raises BadInput if the job ID is invalid, AnswerIsNo if the job is not running, and ToolMissing or ToolFailed if
    Slurm is not installed or does not start a step.
    """
    answer = output_on_nodes(job, ["bash", "-c", _script("find-ranks.sh"), "uenvtool"], environ)
    processes_of_ranks = [Rank(**json.loads(line)) for line in answer.splitlines() if line.startswith("{")]
    # The shell and the tee process that write the log of a rank also have its number, but use less memory.
    largest = {process.rank: process for process in sorted(processes_of_ranks, key=lambda process: process.pages)}
    return [largest[rank] for rank in sorted(largest)]


def output_on_nodes(job: str, command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the output of a command on each node of a running job. Raises as `ranks_of` does."""
    if not re.fullmatch(r"\d+(_\d+)?", job):
        raise BadInput(f"{job!r} is not a job ID", hint="find the ID of your job with `squeue --me`")
    if shutil.which("srun", path=environ.get("PATH")) is None:
        raise ToolMissing.not_on_path("srun", "run this command on a login node of the cluster, or in the job")
    nodes = processes.ask(["squeue", "--noheader", "--format=%D", f"--jobs={job}", "--states=RUNNING"], env=environ)
    count = nodes.stdout.split()
    if nodes.code != 0 and "Invalid job id" not in nodes.stderr:
        why = f"squeue does not report the nodes of job {job}: {nodes.reason}"
        raise ToolFailed(why, hint="check that Slurm responds: `sinfo`")
    if not count:
        raise AnswerIsNo(f"job {job} is not running", hint="list your running jobs with `squeue --me`")
    step = ["srun", f"--jobid={job}", "--overlap", f"--nodes={count[0]}", f"--ntasks={count[0]}"]
    # With these variables, the uenv plugin would mount the images again.
    plain = {name: value for name, value in environ.items() if not name.startswith("UENV_")}
    answer = processes.run([*step, "--cpu-bind=none", *command], env=plain)
    if answer.code != 0:
        hint = f"check that this works: `srun --jobid={job} --overlap hostname`"
        raise ToolFailed(f"cannot start a step in job {job}: {answer.stderr.strip()}", hint=hint)
    return answer.stdout


def _step_arguments(job: str, rank: Rank, *, has_terminal: bool) -> list[str]:
    uenvs = [f"--uenv={rank.uenvs}"] if mounted_images({"UENV_MOUNT_LIST": rank.uenvs}) else []
    terminal = ["--pty"] if has_terminal else []
    step = ["srun", f"--jobid={job}", "--overlap", f"--nodelist={rank.node}", "--nodes=1", "--ntasks=1"]
    return [*step, "--cpu-bind=none", *uenvs, *terminal, "bash", "-c", _script("join-rank.sh"), str(rank.pid)]


def _script(name: str) -> str:
    return Path(__file__).with_name("scripts").joinpath(name).read_text(encoding="utf-8")

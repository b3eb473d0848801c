"""Opens a shell, or runs a command, beside a rank of a running job: on its node, in its environment and folder.

Slurm takes further steps into a job (`srun --overlap`). The first one looks for the ranks on all nodes; the second one
goes to the node of one rank, and takes that process's variables, its folder, and its uenv or container.
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
"""In a command: the process of the rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    """A process of a rank of a running job. pages: in memory. uenvs: what its UENV_MOUNT_LIST says."""

    rank: int
    node: str
    pid: int
    pages: int
    uenvs: str


def attach(job: str, rank: int, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become a shell, or a command, beside a rank. Raises ToolMissing without Slurm, AnswerIsNo without that rank."""
    found = ranks_of(job, environ)
    chosen = next((each_rank for each_rank in found if each_rank.rank == rank), None)
    if chosen is None:
        known = ", ".join(str(each_rank.rank) for each_rank in found)
        raise AnswerIsNo(
            f"job {job} has no rank {rank} that runs as you" + (f"; it has {known}" if known else ""),
            hint="a rank has RANK or SLURM_PROCID in its environment; `squeue --me` shows what runs",
        )
    words = [word.replace(PID, str(chosen.pid)) for word in command]
    processes.become([*step_words(job, chosen, has_terminal=sys.stdin.isatty() and not words), *words], environ)


def ranks_of(job: str, environ: Mapping[str, str]) -> list[Rank]:
    """Ask every node of a job for its ranks, in their order; of each its largest process."""
    if not re.fullmatch(r"\d+(_\d+)?", job):
        raise BadInput(f"{job} is not the number of a job", hint="`squeue --me` shows yours")
    if shutil.which("srun", path=environ.get("PATH")) is None:
        raise ToolMissing.not_on_path("srun", "run it on a login node of the cluster, or in the job")
    nodes = processes.run(["squeue", "--noheader", "--format=%D", f"--jobs={job}", "--states=RUNNING"], env=environ)
    count = nodes.stdout.split()
    if nodes.code != 0 and "Invalid job id" not in nodes.stderr:
        why = f"squeue does not say where job {job} runs: {nodes.reason}"
        raise ToolFailed(why, hint="see that Slurm answers: `sinfo`")
    if not count:
        raise AnswerIsNo(f"job {job} does not run", hint="`squeue --me` shows what runs")
    step = ["srun", f"--jobid={job}", "--overlap", f"--nodes={count[0]}", f"--ntasks={count[0]}"]
    plain = {name: value for name, value in environ.items() if not name.startswith("UENV_")}  # its plugin mounts again
    answer = processes.run([*step, "--cpu-bind=none", "bash", "-c", _script("find-ranks.sh"), "uenvtool"], env=plain)
    if answer.code != 0:
        raise ToolFailed(f"no step can be started in job {job}: {answer.stderr.strip()}", hint="srun --overlap does it")
    found = [Rank(**json.loads(line)) for line in answer.stdout.splitlines() if line.startswith("{")]
    largest = {process.rank: process for process in sorted(found, key=lambda process: process.pages)}
    return [largest[rank] for rank in sorted(largest)]  # beside a training are the shells and tees that keep its log


def step_words(job: str, rank: Rank, *, has_terminal: bool) -> list[str]:
    """Return the words of the step beside a rank; the uenv plugin mounts the same images for it."""
    uenvs = [f"--uenv={rank.uenvs}"] if mounted_images({"UENV_MOUNT_LIST": rank.uenvs}) else []
    terminal = ["--pty"] if has_terminal else []
    step = ["srun", f"--jobid={job}", "--overlap", f"--nodelist={rank.node}", "--nodes=1", "--ntasks=1"]
    return [*step, "--cpu-bind=none", *uenvs, *terminal, "bash", "-c", _script("beside-rank.sh"), str(rank.pid)]


def _script(name: str) -> str:
    return Path(__file__).with_name("scripts").joinpath(name).read_text(encoding="utf-8")

"""Runs the tests of `uenvtool try`: in a Slurm job for which it waits, or on this machine."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

from uenvtool.core import files, processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Progress, Result
from uenvtool.doctor.network import figure_of
from uenvtool.doctor.plot import draw, require_svg
from uenvtool.job.decide import place_of
from uenvtool.job.make import make
from uenvtool.job.plan import HERE, SLURM
from uenvtool.job.request import JobRequest, SharedOptions
from uenvtool.job.shell import PYTHON
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.reference import figures_of
from uenvtool.trial.record import record
from uenvtool.trial.request import TryRequest
from uenvtool.trial.results import RESULTS, read_trial
from uenvtool.trial.verdict import report

SCRIPT, NAME = Path("try.sh"), "try"
LARGEST = 1 << 30
"""The largest message of the tests in bytes, unless a reference for this node type has a larger one."""
SECONDS = 2.0
"""The interval at which `try` asks Slurm for the state of the job."""


def run(request: TryRequest, progress: Progress, note: Callable[[str], None]) -> Result:
    """Run the tests and return the verdict, or return the verdict on an earlier run. note: prints a remark."""
    folder = request.folder
    if request.output:
        require_svg(request.output)
    if not (folder or request.wait) and (request.record or request.output):
        raise BadInput("--no-wait does not show results", hint="give both options to `uenvtool try DIR`")
    if folder is None:
        job = _job(request)
        made = make(job)
        if request.dry_run:
            return made
        if not job.submit:
            folder = Path("logs") / f"{NAME}-{os.getpid()}"
            _run_here(folder, progress)
            note("tests between nodes need Slurm, so they did not run: sums, all_reduce, sendrecv, pairs of nodes")
        else:
            folder = Path("logs") / f"{NAME}-{made.text}"
            if not request.wait:
                return replace(made, next=(f"uenvtool try {folder}",))
            _wait(made.text, folder, progress)
    trial = read_trial(folder, request.system)
    note(f"logs: {folder}")
    if request.record:
        note(record(trial))
    elif trial.runs and not any(figure_of(run, row) for run in trial.runs for row in run.rows):
        note("no reference is known for these nodes; --record stores these figures as your references")
    if request.output:
        largest = sorted(trial.runs, key=lambda run: (run.nodes, len(run.rows)))[-1:]
        note(draw(request.output, largest, force=request.force) if largest else "there is no bandwidth to plot")
    return report(trial)


def _job(request: TryRequest) -> JobRequest:
    """Return the job of the tests. Without Slurm, or on an unknown machine, the tests run on this machine."""
    names = [*(each.name for each in fields(SharedOptions)), "force", "dry_run"]
    shared = {name: getattr(request, name) for name in names}
    job = JobRequest(**shared, words=PYTHON, launcher="none", output=SCRIPT)
    for_slurm = {name: getattr(request, name) for name in ("account", "partition", "option")}
    is_unknown = not (request.system or request.nodes or any(for_slurm.values()) or recognised())
    if not request.runtime and (is_unknown or not (request.dry_run or shutil.which("sbatch"))):
        job = replace(job, runtime="local")
    system, uarch, runtime = place_of(replace(job, **for_slurm))
    figures = figures_of(system, uarch, runtime.name)
    job = replace(job, tests=max([LARGEST, *(each.bytes for each in figures if "_perf" in each.test)]))
    if runtime.job.scheduler == HERE:
        return job
    if runtime.job.scheduler != SLURM:
        hint = f"run `uenvtool try --system {system.name} --runtime local` in a pod"
        raise BadInput(f"{runtime.name} on {system.name} does not run Slurm jobs", hint=hint)
    options = {**for_slurm, "name": NAME, "time": request.time, "nodes": request.nodes or 2}
    return replace(job, **options, launcher="srun", submit=not request.dry_run)


def _run_here(folder: Path, progress: Progress) -> None:
    with progress("tests on this machine") as step:
        done = processes.run(["bash", str(SCRIPT)], env={**os.environ, "LOGS": str(folder)}, on_line=step)
    if not (folder / RESULTS).exists():
        raise ToolFailed(f"{SCRIPT} failed: {done.reason}", hint=f"run `bash {SCRIPT}` to see its output")


def _wait(job: str, folder: Path, progress: Progress) -> None:
    """Show the state of a job, its last test, or the error of squeue, until the job ends."""
    shown, squeue = "", ["squeue", "--noheader", "--format=%T %r", f"--jobs={job}"]
    with progress(f"job {job}") as step:
        while (done := processes.ask(squeue)).stdout.strip() or (done.code and "Invalid job id" not in done.stderr):
            state = done.stdout.strip().removesuffix(" None") or done.reason
            if (folder / RESULTS).exists():
                _, *tests = files.read_named(folder / RESULTS, 1_000_000).decode(errors="replace").splitlines() or [""]
                last = f", the last one is {tests[-1].partition(' ')[0]}" if tests else ""
                state = f"{state}: {len(tests)} tests done{last}"
            if state != shown:
                step(shown := state)
            time.sleep(SECONDS)
    if not (folder / RESULTS).exists():
        hint = f"run `uenvtool doctor slurm-{NAME}-{job}.log`"
        raise ToolFailed(f"job {job} ended before its first test", hint=hint)

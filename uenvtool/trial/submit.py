"""Runs the tests of `uenvtool try`: in a Slurm job for which it waits, or on this machine."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import fields, replace
from pathlib import Path

from uenvtool.core import files, processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Progress, Result
from uenvtool.doctor.plot import draw
from uenvtool.job.decide import place_of
from uenvtool.job.make import make
from uenvtool.job.plan import HERE, SLURM
from uenvtool.job.request import JobRequest, SharedOptions
from uenvtool.job.shell import PYTHON
from uenvtool.knowledge.reference import figures_of
from uenvtool.trial.record import record
from uenvtool.trial.report import report
from uenvtool.trial.request import TryRequest
from uenvtool.trial.results import RESULTS, Trial, read_trial

SCRIPT, NAME = Path("try.sh"), "try"
LARGEST = 1 << 30
"""The largest message of the tests in bytes, unless a reference for this node type has a larger one."""
SECONDS = 2.0
"""The interval at which `try` asks Slurm for the state of the job."""


def run(request: TryRequest, progress: Progress) -> Result:
    """Run the tests and return the verdict, or return the verdict on an earlier run."""
    if request.folder:
        return _shown(request, request.folder)
    job, is_batch = _job(request)
    if request.dry_run:
        return make(replace(job, dry_run=True))
    if not is_batch:
        return _run_here(request, job, progress)
    submitted = make(replace(job, submit=True))
    folder = Path("logs") / f"{NAME}-{submitted.text}"
    if not request.wait:
        return replace(submitted, next=(f"uenvtool try {folder}",))
    with progress(f"job {submitted.text}") as step:
        told = ""
        while state := _state(submitted.text):
            if (folder / RESULTS).exists():
                state = f"{state}: {_last_test(folder)}"
            if state != told:
                step(told := state)
            time.sleep(SECONDS)
    if not (folder / RESULTS).exists():
        log = f"slurm-{NAME}-{submitted.text}.log"
        raise ToolFailed(f"job {submitted.text} ended before its first test", hint=f"run `uenvtool doctor {log}`")
    return _shown(request, folder)


def _job(request: TryRequest) -> tuple[JobRequest, bool]:
    """Return the job of the tests, and whether it is a batch job. Without sbatch, the tests run on this machine."""
    given = {each.name: getattr(request, each.name) for each in fields(SharedOptions)}
    runtime = request.runtime or ("" if shutil.which("sbatch") or request.dry_run else "local")
    job = JobRequest(**{**given, "runtime": runtime}, words=PYTHON, name=NAME, output=SCRIPT, force=request.force)
    system, uarch, known = place_of(replace(job, partition=request.partition, option=request.option))
    largest = max([LARGEST, *(each.bytes for each in figures_of(system, uarch, known.name) if "_perf" in each.test)])
    if known.job.scheduler == HERE:
        return replace(job, name="", launcher="none", tests=largest), False
    if known.job.scheduler != SLURM:
        hint = f"run `uenvtool try --system {system.name} --runtime local` in a pod"
        raise BadInput(f"{known.name} on {system.name} does not run Slurm jobs", hint=hint)
    options = {name: getattr(request, name) for name in ("account", "partition", "time", "option")}
    return replace(job, **options, nodes=request.nodes or 2, launcher="srun", tests=largest), True


def _run_here(request: TryRequest, job: JobRequest, progress: Progress) -> Result:
    make(job)
    folder = Path("logs") / f"{NAME}-{os.getpid()}"
    with progress("tests on this machine") as step:
        done = processes.run(["bash", str(SCRIPT)], env={**os.environ, "LOGS": str(folder)}, on_line=step)
    if not (folder / RESULTS).exists():
        raise ToolFailed(f"{SCRIPT} failed: {done.reason}", hint=f"run `bash {SCRIPT}` to see its output")
    why = "tests between nodes need Slurm, so they did not run"
    return _shown(request, folder, why)


def _state(job: str) -> str:
    """Return the state of a job that has not ended, with the reason for which it waits, or an empty string."""
    answer = processes.ask(["squeue", "--noheader", "--format=%T %r", f"--jobs={job}"])
    state, _, reason = answer.stdout.strip().partition(" ")
    return f"{state} ({reason})" if reason not in ("", "None") else state


def _last_test(folder: Path) -> str:
    lines = files.read_named(folder / RESULTS, 1_000_000).decode(errors="replace").split("\n")
    return (
        f"{len(lines) - 2} tests done, the last one is {lines[-2].partition(' ')[0]}" if len(lines) > 2 else "starting"
    )


def _shown(request: TryRequest, folder: Path, *notes: str) -> Result:
    trial = read_trial(folder, request.system)
    shown_notes = [*notes, f"logs: {folder}"]
    if request.record:
        shown_notes.append(record(trial))
    if request.output:
        shown_notes.append(_drawn(request.output, trial, force=request.force))
    return report(trial, shown_notes)


def _drawn(output: Path, trial: Trial, *, force: bool) -> str:
    runs = [run for test in trial.tests for run in test.examination.runs]
    return draw(output, [max(runs, key=lambda run: (run.nodes, len(run.rows)))] if runs else [], force=force)

"""Runs the command `job`: decides, renders, writes and submits a job."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.core.files import write_siblings
from uenvtool.core.result import Result
from uenvtool.core.session import loaded_views
from uenvtool.job.decide import decide, place_of
from uenvtool.job.disk import read_disk
from uenvtool.job.images import as_path
from uenvtool.job.local import local_files
from uenvtool.job.options import wrong_options
from uenvtool.job.plan import HERE, KUBERNETES, JobPlan
from uenvtool.job.pods import SUBMIT, pod_files
from uenvtool.job.request import JobRequest
from uenvtool.job.shell import sibling
from uenvtool.job.slurm import slurm_files


def make(request: JobRequest) -> Result:
    """Write and optionally submit a job. Raises BadInput, or ToolMissing or ToolFailed if it cannot be submitted."""
    plan, texts, warnings = planned(request)
    main, pods = next(iter(texts)), plan.use.scheduler == KUBERNETES
    program = "runai" if pods else "sbatch"
    data = {**plan.data(), "files": texts}
    if request.dry_run or not (request.output or request.submit):
        others = [name for name in texts if name != main]
        note = (f"this job also needs {', '.join(others)}; use -o FILE to write all files",) if others else ()
        if request.output:
            note = (f"-o {request.output} would write {', '.join(texts)}",)
        shown = texts[main]
        if request.dry_run:
            shown += "".join(f"\n# {name}\n{texts[name]}" for name in others if name.endswith(".toml"))
        return Result(data=data, file=shown, notes=note, warnings=warnings)
    if request.submit:
        _require_program(program)
    contents = {Path(name).name: text for name, text in texts.items()}
    write_siblings(Path(main).parent, contents, force=request.force)
    notes: tuple[str, ...] = ()
    if plan.use.scheduler not in (HERE, KUBERNETES) and not plan.opens_shell:
        unit = "node" if plan.command.once_per_node else "rank"
        job = f"{plan.name}-{'JOB_NUMBER' if plan.array else 'JOB'}"
        notes = (f"output: slurm-{job}.log contains all of it, logs/{job}/ contains one file per {unit}",)
    if not plan.opens_shell and not any(warning.startswith(plan.run) for warning in warnings):
        notes = (plan.run, *notes)
    if not request.submit:
        starter = "sh" if pods else "bash" if plan.use.scheduler == HERE or plan.opens_shell else "sbatch"
        next_ = f"{starter} {shlex.quote(sibling(main, SUBMIT) if pods else main)}"
        return Result(data=data, text="\n".join(texts), notes=notes, warnings=warnings, next=(next_,))
    number = _submitted(["sh", sibling(main, SUBMIT)] if pods else ["sbatch", "--parsable", main], program)
    notes = (f"written: {', '.join(texts)}", *notes)
    return Result(data={**data, "id": number}, text=number, notes=notes, warnings=warnings)


def _require_program(program: str) -> None:
    if shutil.which(program) is None:
        hint = "leave --submit out, copy the job to the cluster and submit it there"
        raise ToolMissing.not_on_path(program, hint)
    if program != "sbatch" or not loaded_views(os.environ):
        return
    if "--uenv-passthrough" in processes.ask(["sbatch", "--help"]).stdout:
        raise BadInput(
            "a uenv is loaded in this shell, and uenv v10 makes sbatch fail in such a shell",
            hint="leave the uenv (exit) and submit again, because the job loads its own; or submit with "
            "`sbatch --uenv-passthrough=ignore`",
        )


def _submitted(command: list[str], program: str) -> str:
    done = processes.run(command)
    if done.code != 0:
        hint = f"fix the cause, then submit {command[-1]} again: `{done.command}`"
        raise ToolFailed(f"{program} rejected the job: {done.reason}", hint=hint)
    return done.stdout.strip().split(";")[0]


def planned(request: JobRequest) -> tuple[JobPlan, dict[str, str], tuple[str, ...]]:
    """Return a plan, the texts of its files by name, and warnings. Raises BadInput if the job is impossible."""
    request = replace(request, image=as_path(request.image, is_absolute=bool(request.workdir)))
    system, uarch, runtime = place_of(request)
    BadInput.raise_any(wrong_options(request, system.name, runtime))
    plan, warnings = decide(request, system, uarch, runtime, read_disk(request))
    return plan, job_files(plan), warnings


def job_files(plan: JobPlan) -> dict[str, str]:
    """Return the texts of a job's files by name; its script is first."""
    if plan.use.scheduler == KUBERNETES:
        return pod_files(plan)
    if plan.use.scheduler == HERE:
        return local_files(plan)
    return slurm_files(plan)

"""Asks Slurm what it has of a job: scontrol for one that is not long gone, else the accounting, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from uenvtool.core import tools
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.doctor.slurm import COLUMNS, JobRecord, accounted_facts, kept_environment, kept_text, shown_facts

SCONTROL, SACCT = "scontrol", "sacct"
NO_SCRIPT = "script: Slurm does not have it"
NO_ENVIRONMENT = "environment: Slurm keeps none of this job (accounting does, with AccountingStoreFlags=job_env)"
NO_SACCT = "environment: there is no sacct here to ask for it"


def job_record(job: str) -> JobRecord:
    """What Slurm has of a job. Raises BadInput for a job that it does not know, ToolMissing without Slurm."""
    if shutil.which(SCONTROL) is None:
        raise ToolMissing("scontrol is not here", hint="run it where Slurm is, or name the output with --log")
    facts = shown_facts(_answer([SCONTROL, "show", "job", job])) or _accounted(job)
    if not facts:
        hint = "Slurm forgets jobs after minutes; name the output with --log"
        raise BadInput(f"Slurm does not know the job {job}", hint=hint)
    written = _answer([SCONTROL, "write", "batch_script", job, "-"])
    script = written if written.startswith("#!") else _kept(job, "--batch-script")
    recorded = _kept(job, "--env-vars")
    why_not = NO_ENVIRONMENT if shutil.which(SACCT) else NO_SACCT
    return JobRecord(
        facts=facts,
        script=script,
        environment=kept_environment(recorded) if recorded else None,
        unseen=(*(() if script else (NO_SCRIPT,)), *(() if recorded else (why_not,))),
    )


def _accounted(job: str) -> dict[str, str]:
    """What Slurm's accounting says of a job, where there is one; an old one has no SubmitLine."""
    for columns in (list(COLUMNS), list(COLUMNS)[:-1]):
        words = [SACCT, "--jobs", job, "--allocations", "--parsable2", "--noheader", f"--format={','.join(columns)}"]
        facts = accounted_facts(_answer(words), columns)
        if facts:
            return facts
    return {}


def _kept(job: str, option: str) -> str:
    """The script or the environment that the accounting keeps of a job."""
    return kept_text(_answer([SACCT, "--jobs", job, option]))


def _answer(words: Sequence[str]) -> str:
    """What a command of Slurm's prints; nothing if it is not here, or fails."""
    if shutil.which(words[0]) is None:
        return ""
    answer = tools.run(words)
    return answer.stdout if answer.code == 0 else ""

"""A job that ran or runs: its script, its output and its end, as Slurm has them, put together."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool import tools
from uenvtool.commands.doctor.log import examine_logs
from uenvtool.commands.job.check import flaws
from uenvtool.doctor.checks import Fault
from uenvtool.doctor.examine import as_findings
from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.errors import BadInput, ToolMissing
from uenvtool.job.check.findings import Finding as Flaw
from uenvtool.model.finding import RISK, KnownFinding
from uenvtool.model.finding_reader import load_findings

SCONTROL, SACCT = "scontrol", "sacct"
ENDS = {"OUT_OF_MEMORY": "out-of-memory-slurm", "TIMEOUT": "time-limit", "NODE_FAIL": "node-failed"}
"""The states in which a job ends, and what each means."""
_OF_LINE = re.compile(r"^\s*(StdOut|StdErr|Command|WorkDir)=(.*?)\s*$", re.MULTILINE)
_OF_WORD = re.compile(r"(?<!\S)(JobState|Reason|ExitCode|NodeList)=(\S*)")
_JOB = re.compile(r"\d+(_\d+)?(\+\d+)?\Z")
ACCOUNTED = {"State": "JobState", "ExitCode": "ExitCode", "NodeList": "NodeList", "WorkDir": "WorkDir"}
"""The columns of sacct, and the names that scontrol has for them."""
LABELS = {"JobState": "state", "Reason": "reason", "ExitCode": "exit code", "NodeList": "nodes"}


def examine_job(job: str, *, system: str | None = None) -> Examination:
    """What Slurm still has of a job: its end, the flaws of its script, what its output says.

    Raises BadInput for a job that Slurm does not know, ToolMissing without Slurm.
    """
    if not _JOB.match(job):
        raise BadInput(f"{job!r} is not the id of a job", hint="name it as squeue does, for example 123456")
    if shutil.which(SCONTROL) is None:
        raise ToolMissing("scontrol is not here", hint="run it where Slurm is, or name the output with --log")
    facts = _shown(job) or _accounted(job)
    if not facts:
        hint = "Slurm forgets jobs after minutes; name the output with --log"
        raise BadInput(f"Slurm does not know the job {job}", hint=hint)
    outputs = [path for path in dict.fromkeys(map(Path, _outputs(facts))) if path.is_file()]
    logs = examine_logs(outputs) if outputs else Examination(unseen=("output: it is not there, or was not named",))
    script = _script(job)
    found = {finding.known.id: finding for finding in [*_end(facts), *logs.findings]}
    found.update({flaw.known.id: flaw for flaw in _flaws(script, system) if flaw.known.id not in found})
    state = tuple((label, facts[name]) for name, label in LABELS.items() if facts.get(name, "None") not in ("None", ""))
    unseen = logs.unseen if script else (*logs.unseen, "script: Slurm does not have it")
    return Examination(findings=tuple(worst_first(found.values())), facts=(*state, *logs.facts), unseen=unseen)


def _shown(job: str) -> dict[str, str]:
    """What scontrol says of a job that is not long gone; nothing if it does not know it."""
    answer = tools.run([SCONTROL, "show", "job", job])
    if answer.code != 0:
        return {}
    first = answer.stdout.split("\n\n")[0]  # of an array, its first task
    return dict([*_OF_WORD.findall(first), *_OF_LINE.findall(first)])


def _accounted(job: str) -> dict[str, str]:
    """What Slurm's accounting says of a job, where there is one."""
    if shutil.which(SACCT) is None:
        return {}
    words = [SACCT, "--jobs", job, "--allocations", "--parsable2", "--noheader", f"--format={','.join(ACCOUNTED)}"]
    answer = tools.run(words)
    row = answer.stdout.strip().splitlines()[:1] if answer.code == 0 else []
    return dict(zip(ACCOUNTED.values(), row[0].split("|"), strict=False)) if row else {}


def _outputs(facts: Mapping[str, str]) -> Iterator[str]:
    """The files that hold the job's output."""
    for name in ("StdOut", "StdErr"):
        path = facts.get(name, "")
        if path and path != os.devnull:
            yield os.path.join(facts.get("WorkDir", ""), path)


def _script(job: str) -> str:
    """The batch script as Slurm keeps it, for its owner; empty if it is not there."""
    answer = tools.run([SCONTROL, "write", "batch_script", job, "-"])
    return answer.stdout if answer.code == 0 and answer.stdout.startswith("#!") else ""


def _end(facts: Mapping[str, str]) -> list[Finding]:
    """What the state of the job says by itself."""
    name = ENDS.get(facts.get("JobState", "").partition(" ")[0])
    return as_findings([Fault(name)], load_findings().findings) if name else []


def _flaws(script: str, system: str | None) -> Iterator[Finding]:
    """The flaws of the script, as `uenvtool job check` finds them; each counts as a risk."""
    for flaw in flaws(script, "script", system) if script else ():
        yield Finding(known=_known(flaw), detail=flaw.detail, place=f"script:{flaw.position.line}")


def _known(flaw: Flaw) -> KnownFinding:
    rule = flaw.rule
    return KnownFinding(
        id=rule.id,
        severity=RISK,
        what=rule.why,
        why=rule.cost,
        fix=rule.fix,
        source=rule.source,
        position=rule.position,
    )

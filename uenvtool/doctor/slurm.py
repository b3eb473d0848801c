"""What Slurm has of a job: scontrol knows one that is not long gone, the accounting, where there is one, more."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.doctor.nodes import expanded

_OF_LINE = re.compile(r"^\s*(StdOut|StdErr|WorkDir)=(.*?)\s*$|(?<!\S)(JobName)=(.*?)\s*$", re.MULTILINE)
_OF_WORD = re.compile(r"(?<!\S)(JobId|ArrayJobId|ArrayTaskId|JobState|Reason|ExitCode|NodeList|Network)=(\S*)")
_USER = re.compile(r"(?<!\S)UserId=([^\s(]+)\(")
COLUMNS = {
    "State": "JobState",
    "ExitCode": "ExitCode",
    "NodeList": "NodeList",
    "WorkDir": "WorkDir",
    "JobIDRaw": "JobId",
    "JobID": "ArrayId",
    "User": "User",
    "JobName": "JobName",
    "SubmitLine": "SubmitLine",
}
"""The columns of sacct, and the names that scontrol has for them. The last may have any text in it."""
_RULE = re.compile(r"^-{20,}\n", re.MULTILINE)
_NEXT = re.compile(r"^(?:Batch Script|Environment used) for ", re.MULTILINE)
_NONE = "NONE"
"""What sacct prints for a script or an environment that it has not."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PLACE = re.compile(r"%(\d*)(.)")
_AS_PLACE = {
    "SLURM_JOB_ID": "%j",
    "SLURM_JOBID": "%j",
    "SLURM_JOB_NAME": "%x",
    "SLURM_ARRAY_JOB_ID": "%A",
    "SLURM_ARRAY_TASK_ID": "%a",
}
_VARIABLE = re.compile(rf"\$\{{?({'|'.join(_AS_PLACE)})\}}?")
SCONTROL, SACCT = "scontrol", "sacct"
NO_SCRIPT = "script: Slurm does not have it"
NO_ENVIRONMENT = "environment: Slurm keeps none of this job (accounting does, with AccountingStoreFlags=job_env)"
NO_SACCT = "environment: there is no sacct here to ask for it"
MOST_DIGITS = 10
"""How many digits Slurm fills a number up to (sbatch(1), FILENAME PATTERN)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """What Slurm has of a job.

    facts: by the names that scontrol uses. script: the batch script, empty if it is not kept. environment: the
    variables that the job was submitted with, None if they are not kept. unseen: what could not be looked at.
    """

    facts: Mapping[str, str]
    script: str = ""
    environment: Mapping[str, str] | None = None
    unseen: tuple[str, ...] = ()


def shown_facts(answer: str) -> dict[str, str]:
    """Return the facts in an answer of `scontrol show job`; of an array, those of its first task."""
    first = answer.partition("\n\n")[0]
    lines = {name or other: value or text for name, value, other, text in _OF_LINE.findall(first)}
    user = _USER.search(first)
    found = {**dict(_OF_WORD.findall(first)), **lines, **({"User": user[1]} if user else {})}
    return {name: value for name, value in found.items() if value not in ("(null)", "None", "")}


def accounted_facts(answer: str, columns: Sequence[str]) -> dict[str, str]:
    """Return the facts in an answer of `sacct --parsable2` with these columns; nothing if it has no row."""
    row = answer.strip().splitlines()[:1]
    values = row[0].split("|", len(columns) - 1) if row else []
    found = {COLUMNS[column]: value for column, value in zip(columns, values, strict=False) if value}
    array, _, task = found.pop("ArrayId", "").partition("_")
    return {**found, "ArrayJobId": array, "ArrayTaskId": task} if task.isdecimal() else found


def kept_text(answer: str) -> str:
    """Return the text in an answer of `sacct --batch-script` or `--env-vars`, of the first job; empty if not kept."""
    rule = _RULE.search(answer)
    if rule is None:
        return ""
    following = _NEXT.search(answer, rule.end())
    text = answer[rule.end() : following.start() if following else len(answer)]
    return "" if text.strip() in ("", _NONE) else text.rstrip("\n") + "\n"


def kept_environment(text: str) -> dict[str, str]:
    """Return the variables in what sacct keeps of them: a line each; a line that names none goes on the one before."""
    found: dict[str, str] = {}
    name = ""
    for line in text.removesuffix("\n").split("\n"):
        match = _ASSIGNMENT.match(line)
        if match:
            name, found[match[1]] = match[1], match[2]
        elif name:
            found[name] += f"\n{line}"
    return found


def output_paths(patterns: Sequence[str], facts: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that a job's output went to, of what names them; by default that of sbatch. See sbatch(1)."""
    usual = "slurm-%A_%a.out" if facts.get("ArrayTaskId") else "slurm-%j.out"
    for pattern in patterns or (usual,):
        path = _PLACE.sub(lambda place: _filled(place, facts), _VARIABLE.sub(lambda seen: _AS_PLACE[seen[1]], pattern))
        if path != os.devnull:
            yield os.path.join(facts.get("WorkDir", ""), path)


def _filled(place: re.Match[str], facts: Mapping[str, str]) -> str:
    """Return what Slurm writes in place of `%j` and its like; what differs in each task is left as it is."""
    job = facts.get("JobId", "")
    values = {
        "%": "%",
        "j": job,
        "J": job,
        "A": facts.get("ArrayJobId", job),
        "a": facts.get("ArrayTaskId", "4294967294"),
        "x": facts.get("JobName", ""),
        "u": facts.get("User", ""),
        "N": next(expanded(facts.get("NodeList", "")), ""),
        "n": "0",
        "t": "0",
    }
    value = values.get(place[2], place[0])
    width = place[1].lstrip("0")
    return value.zfill(min(int(width[:2] or 0), MOST_DIGITS)) if value.isdecimal() else value


def job_record(job: str) -> JobRecord:
    """Return what Slurm has of a job. Raises BadInput for a job that it does not know, ToolMissing without Slurm."""
    if shutil.which(SCONTROL) is None:
        raise ToolMissing.not_on_path(SCONTROL, "run it where Slurm is, or name the output with --log")
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
    """Return what Slurm's accounting says of a job, where there is one; an old one has no SubmitLine."""
    for columns in (list(COLUMNS), list(COLUMNS)[:-1]):
        words = [SACCT, "--jobs", job, "--allocations", "--parsable2", "--noheader", f"--format={','.join(columns)}"]
        facts = accounted_facts(_answer(words), columns)
        if facts:
            return facts
    return {}


def _kept(job: str, option: str) -> str:
    return kept_text(_answer([SACCT, "--jobs", job, option]))


def _answer(words: Sequence[str]) -> str:
    """Return what a command of Slurm's prints; nothing if it is not here, or fails."""
    if shutil.which(words[0]) is None:
        return ""
    answer = processes.run(words)
    return answer.stdout if answer.code == 0 else ""

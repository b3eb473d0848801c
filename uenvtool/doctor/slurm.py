"""Reader of Slurm's data about a job: from scontrol for recent jobs, and from sacct if accounting is enabled."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, NoAnswer, ToolMissing
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
"""The columns of sacct, each with the name of the same fact in scontrol. The last column may contain any text."""
_RULE = re.compile(r"^-{20,}\n", re.MULTILINE)
_NEXT = re.compile(r"^(?:Batch Script|Environment used) for ", re.MULTILINE)
_NONE = "NONE"
"""The text that sacct prints for a script or environment that it does not have."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_FIELD = re.compile(r"%(\d*)(.)")
_FIELD_OF = {
    "SLURM_JOB_ID": "%j",
    "SLURM_JOBID": "%j",
    "SLURM_JOB_NAME": "%x",
    "SLURM_ARRAY_JOB_ID": "%A",
    "SLURM_ARRAY_TASK_ID": "%a",
}
_VARIABLE = re.compile(rf"\$\{{?({'|'.join(_FIELD_OF)})\}}?")
SCONTROL, SACCT = "scontrol", "sacct"
NO_SCRIPT = "script: not stored by Slurm"
NO_ENVIRONMENT = "environment: not stored by Slurm (this requires AccountingStoreFlags=job_env)"
NO_SACCT = "environment: the program sacct is not on PATH"
MOST_DIGITS = 10
"""The maximum number of digits to which Slurm pads a number (sbatch(1), FILENAME PATTERN)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """The data that Slurm keeps about a job.

    facts: the properties, by scontrol's names.
    script, environment: the script and the variables at submission; empty and None if Slurm did not store them.
    unseen: the data that is not available, with the reason.
    silent: the programs of Slurm that did not answer.
    """

    facts: Mapping[str, str]
    script: str = ""
    environment: Mapping[str, str] | None = None
    unseen: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def shown_facts(answer: str) -> dict[str, str]:
    """Return the facts in the output of `scontrol show job`, for a job array only those of its first task."""
    first = answer.partition("\n\n")[0]
    lines = {name or other: value or text for name, value, other, text in _OF_LINE.findall(first)}
    user = _USER.search(first)
    facts = {**dict(_OF_WORD.findall(first)), **lines, **({"User": user[1]} if user else {})}
    return {name: value for name, value in facts.items() if value not in ("(null)", "None", "")}


def accounted_facts(answer: str, columns: Sequence[str]) -> dict[str, str]:
    """Return the facts in the first row of the output of `sacct --parsable2` with the given columns."""
    row = answer.strip().splitlines()[:1]
    values = row[0].split("|", len(columns) - 1) if row else []
    facts = {COLUMNS[column]: value for column, value in zip(columns, values, strict=False) if value}
    array, _, task = facts.pop("ArrayId", "").partition("_")
    return {**facts, "ArrayJobId": array, "ArrayTaskId": task} if task.isdecimal() else facts


def kept_text(answer: str) -> str:
    """Return the first job's text in the output of `sacct --batch-script` or `--env-vars`, or "" if Slurm has none."""
    rule = _RULE.search(answer)
    if rule is None:
        return ""
    following = _NEXT.search(answer, rule.end())
    text = answer[rule.end() : following.start() if following else len(answer)]
    return "" if text.strip() in ("", _NONE) else text.rstrip("\n") + "\n"


def kept_environment(text: str) -> dict[str, str]:
    """Return the variables in sacct's text. A line that is not an assignment continues the previous value."""
    variables: dict[str, str] = {}
    name = ""
    for line in text.removesuffix("\n").split("\n"):
        match = _ASSIGNMENT.match(line)
        if match:
            name, variables[match[1]] = match[1], match[2]
        elif name:
            variables[name] += f"\n{line}"
    return variables


def output_paths(patterns: Sequence[str], facts: Mapping[str, str]) -> Iterator[str]:
    """Yield the output files of a job for file name patterns as in sbatch(1). Default: sbatch's default pattern."""
    default = "slurm-%A_%a.out" if facts.get("ArrayTaskId") else "slurm-%j.out"
    for pattern in patterns or (default,):
        with_fields = _VARIABLE.sub(lambda variable: _FIELD_OF[variable[1]], pattern)
        path = _FIELD.sub(lambda field: _filled(field, facts), with_fields)
        if path != os.devnull:
            yield os.path.join(facts.get("WorkDir", ""), path)


def _filled(field: re.Match[str], facts: Mapping[str, str]) -> str:
    """Return Slurm's replacement for a field such as `%j`. Unknown fields stay unchanged."""
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
    value = values.get(field[2], field[0])
    width = field[1].lstrip("0")
    return value.zfill(min(int(width[:2] or 0), MOST_DIGITS)) if value.isdecimal() else value


def job_record(job: str) -> JobRecord:
    """Return the data that Slurm keeps about a job.

    Raises BadInput if Slurm does not know the job, and ToolMissing if Slurm is not installed.
    """
    if shutil.which(SCONTROL) is None:
        raise ToolMissing.not_on_path(SCONTROL, "run it on a machine with Slurm, or pass the output with --log")
    slurm = _Slurm()
    facts = shown_facts(slurm.output([SCONTROL, "show", "job", job])) or _accounted(slurm, job)
    if not (facts or slurm.silent):
        hint = "pass the job's output with --log; Slurm forgets jobs minutes after their end"
        raise BadInput(f"Slurm does not know job {job}", hint=hint)
    written = slurm.output([SCONTROL, "write", "batch_script", job, "-"])
    script = written if written.startswith("#!") else _kept(slurm, job, "--batch-script")
    recorded = _kept(slurm, job, "--env-vars")
    why_not = NO_ENVIRONMENT if shutil.which(SACCT) else NO_SACCT
    unseen = (*(() if script else (NO_SCRIPT,)), *(() if recorded else (why_not,)))
    return JobRecord(
        facts=facts or {"JobId": job},
        script=script,
        environment=kept_environment(recorded) if recorded else None,
        unseen=() if slurm.silent else unseen,
        silent=tuple(slurm.silent),
    )


def _accounted(slurm: _Slurm, job: str) -> dict[str, str]:
    for columns in (list(COLUMNS), list(COLUMNS)[:-1]):  # an old sacct does not know SubmitLine, the last column
        command = [SACCT, "--jobs", job, "--allocations", "--parsable2", "--noheader", f"--format={','.join(columns)}"]
        facts = accounted_facts(slurm.output(command), columns)
        if facts:
            return facts
    return {}


def _kept(slurm: _Slurm, job: str, option: str) -> str:
    return kept_text(slurm.output([SACCT, "--jobs", job, option]))


class _Slurm:
    """The commands of Slurm. A program that did not answer once is silent, and does not run again."""

    def __init__(self) -> None:
        self.silent: list[str] = []

    def output(self, command: Sequence[str]) -> str:
        """Return the output of a command, or an empty string if it is not installed, fails or does not answer."""
        if shutil.which(command[0]) is None or command[0] in self.silent:
            return ""
        try:
            done = processes.ask(command)
        except NoAnswer as error:
            self.silent.append(error.program)
            return ""
        return done.stdout if done.code == 0 else ""

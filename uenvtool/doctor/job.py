"""A job that ran or runs: its script, its output, its environment and its end, as Slurm has them, put together."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.doctor.checks import Fault
from uenvtool.doctor.examine import as_findings
from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.job_environment import environment_faults, tuned_job
from uenvtool.doctor.log.read import examine_logs
from uenvtool.doctor.slurm import JobRecord, output_paths
from uenvtool.doctor.slurm_record import job_record
from uenvtool.job.check.findings import Finding as Flaw
from uenvtool.job.check.findings import read_source
from uenvtool.job.check.lint import flaws
from uenvtool.job.check.parts import Source
from uenvtool.job.check.script import options_of
from uenvtool.knowledge.finding import BROKEN, RISK, KnownFinding, load_findings
from uenvtool.knowledge.rule import ERROR, HINT

GOOD_STATES = ("COMPLETED", "COMPLETING", "CONFIGURING", "PENDING", "REQUEUED", "RESIZING", "RUNNING", "SUSPENDED")
FAILED = "failed"
"""What is known of a job that failed, if nothing says why."""
ENDS = {"OUT_OF_MEMORY": "out-of-memory-slurm", "TIMEOUT": "time-limit", "NODE_FAIL": "node-failed"}
"""The states in which a job ends, and what each means."""
_JOB = re.compile(r"\d+(_\d+)?(\+\d+)?\Z")
_STEP_OUTPUT = re.compile(r"srun(?:\s+-\S+(?:\s+[^-\s]\S*)?)*?\s+(?:--output[= ]|-o ?)[\"']?([^\s\"']+)")
"""Among the options of srun, each of which may have a value; what follows the command is the command's."""
LABELS = {"JobState": "state", "Reason": "reason", "ExitCode": "exit code", "NodeList": "nodes"}
SCRIPT, ENVIRONMENT = "script", "environment"
NO_OUTPUT = "output: it is not there, or was not named"


def examine_job(
    job: str, *, system: str | None = None, runtime: str | None = None, recipe: str | None = None
) -> Examination:
    """What Slurm still has of a job: its end, the flaws of its script, its variables, what its output says.

    Raises BadInput for a job that Slurm does not know and for names that do not exist, ToolMissing without Slurm.
    """
    if not _JOB.match(job):
        raise BadInput(f"{job!r} is not the id of a job", hint="name it as squeue does, for example 123456")
    record = job_record(job)
    script = read_source(record.script, SCRIPT) if record.script else None
    options = dict(_options(record, script))
    outputs = [path for path in dict.fromkeys(map(Path, _outputs(record, script, options))) if path.is_file()]
    logs = examine_logs(outputs) if outputs else Examination(unseen=(NO_OUTPUT,))
    found = {finding.known.id: finding for finding in [*_end(record.facts, logs), *logs.findings]}
    findings = [*found.values(), *_flaws(record, system, found)]
    facts = [(label, record.facts[name]) for name, label in LABELS.items() if name in record.facts]
    unseen = [*logs.unseen, *record.unseen]
    if record.environment is not None:
        tuned, why_not = tuned_job(record.environment, script, system=system, runtime=runtime, recipe=recipe)
        wrong = as_findings(environment_faults(record.environment, script, tuned, options), load_findings().findings)
        findings += [dataclasses.replace(finding, place=ENVIRONMENT) for finding in wrong]
        facts += [("runs on", f"{tuned.system}, in {tuned.runtime}")] if tuned else []
        unseen += [why_not] if why_not else []
    return Examination(findings=tuple(worst_first(findings)), facts=(*facts, *logs.facts), unseen=tuple(unseen))


def _options(record: JobRecord, script: Source | None) -> Iterator[tuple[str, str]]:
    """The options that the job was submitted with; of two the last counts, as it does for sbatch."""
    for part in script.parts if script else ():
        if part.kind == "directive":
            yield part.name, part.text
    for name, value in (record.environment or {}).items():
        if name.startswith("SBATCH_"):
            yield name.removeprefix("SBATCH_").lower().replace("_", "-"), value
    yield from options_of(record.facts.get("SubmitLine", ""))
    if "Network" in record.facts:
        yield "network", record.facts["Network"]


def _outputs(record: JobRecord, script: Source | None, options: Mapping[str, str]) -> Iterator[str]:
    """The files that hold the job's output, and those that the steps of its script write."""
    named = [record.facts[name] for name in ("StdOut", "StdErr") if name in record.facts]
    named = named or [options[name] for name in ("output", "error") if options.get(name)]
    yield from output_paths(named, record.facts)
    steps = [part.text for part in script.parts if part.kind == "command" and part.name == "srun"] if script else []
    patterns = [match[1] for text in steps if (match := _STEP_OUTPUT.match(text))]
    yield from output_paths(patterns, record.facts) if patterns else ()


def _end(facts: Mapping[str, str], logs: Examination) -> list[Finding]:
    """Return what the state of the job says by itself; that it failed only if its output does not say why."""
    state = facts.get("JobState", "").partition(" ")[0]
    name = ENDS.get(state)
    if name is None and state not in (*GOOD_STATES, "") and not any(f.known.severity == BROKEN for f in logs.findings):
        name = FAILED
    detail = f"Slurm has the state {state}, exit code {facts.get('ExitCode', 'unknown')}" if name == FAILED else ""
    return as_findings([Fault(name, detail)], load_findings().findings) if name else []


def _flaws(record: JobRecord, system: str | None, known: Collection[str]) -> Iterator[Finding]:
    """The flaws of the script, as `uenvtool job check` finds them, but for hints."""
    given = record.environment
    for flaw in flaws(record.script, SCRIPT, system, given) if record.script else ():
        if flaw.rule.id not in known and flaw.severity != HINT:
            yield Finding(known=_known(flaw), detail=flaw.detail, place=f"{SCRIPT}:{flaw.position.line}")


def _known(flaw: Flaw) -> KnownFinding:
    rule = flaw.rule
    return KnownFinding(
        id=rule.id,
        severity=BROKEN if flaw.severity == ERROR else RISK,
        what=rule.what,
        why=rule.cost,
        fix=rule.fix,
        source=rule.source,
        position=rule.position,
    )

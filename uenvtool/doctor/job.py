"""Diagnosis of a Slurm job from its state, script, environment and output."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from uenvtool.check.submission import Submission, submission
from uenvtool.core.errors import BadInput
from uenvtool.doctor.files import examine_files
from uenvtool.doctor.finding import Examination, Fault, Finding, as_findings, no_answer, worst_first
from uenvtool.doctor.nodes import expanded
from uenvtool.doctor.ranks import SHARED_VARIABLES
from uenvtool.doctor.shell import faults
from uenvtool.doctor.slurm import JobRecord, job_record, output_paths
from uenvtool.doctor.snapshot import Snapshot, Tuned
from uenvtool.doctor.variables import current_tuning
from uenvtool.knowledge.finding import BROKEN, NOTE, RISK, KnownFinding, load_findings
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.rule import ERROR, HINT
from uenvtool.knowledge.tuning import DEFAULT

LIVE_STATES = ("CONFIGURING", "PENDING", "REQUEUED", "RESIZING", "RUNNING", "SUSPENDED")
"""The states of a job that has not ended. Until it ends, Slurm shows the meaningless exit code 0:0."""
GOOD_STATES = ("COMPLETED", "COMPLETING", *LIVE_STATES)
FAILED = "failed"
"""The finding for a failed job whose cause is unknown."""
_JOB = re.compile(r"\d+(_\d+)?(\+\d+)?\Z")
_STEP_OUTPUT = re.compile(r"srun(?:\s+-\S+(?:\s+[^-\s]\S*)?)*?\s+(?:--output[= ]|-o ?)[\"']?([^\s\"']+)")
"""Matches the option --output of srun, but not an option of the program that srun runs."""
LABELS = {"JobState": "state", "Reason": "reason", "ExitCode": "exit code", "NodeList": "nodes"}
SCRIPT, ENVIRONMENT = "script", "environment"
CORES, NETWORK = "cpus-per-task", "network"
_ACTIVATES = re.compile(r"uenvtool|activate/[\w-]+\.sh\b")
"""Matches a script line that applies the tuning. An activation script keeps existing values of default settings."""
IMAGES = ("uenv", "environment", "container-image")
"""The sbatch options that name the image, from uenv, the Container Engine and pyxis."""
DUMP_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""The variables that set the file of PyTorch's flight recorder; the second one is the older name."""
_USED = re.compile(r"\$\{?([A-Z_]+)\}?")
MOST_STEPS = 3
"""The maximum number of expansions of a path whose variables contain other variables."""
NO_OUTPUT = "output: the file does not exist or its name is unknown"


def examine_job(
    job: str, *, system: str | None = None, runtime: str | None = None, recipe: str | None = None
) -> Examination:
    """Return the diagnosis of a job from its state, script, variables and output, as far as Slurm keeps them.

    Raises BadInput if Slurm does not know the job or a name does not exist, and ToolMissing if Slurm is not installed.
    """
    if not _JOB.match(job):
        raise BadInput(f"--job: {job!r} is not a job ID", hint="use the ID that squeue prints, for example 123456")
    record = job_record(job)
    line, directory = (record.facts.get(name, "") for name in ("SubmitLine", "WorkDir"))
    submitted = submission(record.script, SCRIPT, system, record.environment or {}, line, directory)
    options = dict(submitted.options)
    if "Network" in record.facts:
        options[NETWORK] = record.facts["Network"]
    named = dict.fromkeys(map(Path, _outputs(record, submitted, options)))
    outputs = [path for path in named if os.path.isfile(path)]  # Path.is_file raises an error if a name is too long
    nodes = list(expanded(record.facts.get("NodeList", "")))
    files = [*outputs, *_dumps(record, submitted)]
    logs = examine_files(files, system=system, nodes=nodes) if files else Examination(unseen=(NO_OUTPUT,))
    by_id = {finding.known.id: finding for finding in [*_end(record.facts, logs), *logs.findings]}
    silent = as_findings(map(no_answer, record.silent), load_findings().findings)
    findings = [*silent, *by_id.values(), *_script_problems(submitted, by_id)]
    facts = list(_facts(record.facts))
    unseen = [*logs.unseen, *record.unseen]
    if record.environment is not None:
        tuned, why_not = _tuned(record.environment, submitted, system=system, runtime=runtime, recipe=recipe)
        environment_faults = _environment_faults(record.environment, submitted, tuned, options)
        environment_findings = as_findings(environment_faults, load_findings().findings)
        findings += [dataclasses.replace(finding, place=ENVIRONMENT) for finding in environment_findings]
        facts += [("runs on", f"{tuned.system}, in {tuned.runtime}")] if tuned else []
        unseen += [why_not] if why_not else []
    image = next((options[name] for name in IMAGES if options.get(name)), "")
    given = _variables(record.environment or {}, submitted)
    runs = tuple(dataclasses.replace(run, image=image, variables={**given, **run.variables}) for run in logs.runs)
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(*facts, *logs.facts),
        unseen=tuple(unseen),
        runs=runs,
        quotes=logs.quotes,
    )


def _facts(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    is_live = _state(facts) in LIVE_STATES
    for name, label in LABELS.items():
        if name in facts and not (is_live and name == "ExitCode"):
            yield label, facts[name]


def _state(facts: Mapping[str, str]) -> str:
    return facts.get("JobState", "").partition(" ")[0]  # without additions such as the user who cancelled the job


def _variables(environ: Mapping[str, str], submitted: Submission) -> dict[str, str]:
    """Return the network variables of a job. A default in the script does not replace the submitted value."""
    variables = {name: value for name, value in environ.items() if SHARED_VARIABLES.fullmatch(name)}
    for part in submitted.parts:
        is_default = f"${{{part.name}" in part.text and part.name in environ
        if part.kind == "variable" and SHARED_VARIABLES.fullmatch(part.name) and not is_default:
            variables[part.name] = part.text
    return dict(sorted(variables.items()))


def _outputs(record: JobRecord, submitted: Submission, options: Mapping[str, str]) -> Iterator[str]:
    named = [record.facts[name] for name in ("StdOut", "StdErr") if name in record.facts]
    named = named or [options[name] for name in ("output", "error") if options.get(name)]
    yield from output_paths(named, record.facts)
    steps = [part.text for part in submitted.parts if part.kind == "command" and part.name == "srun"]
    patterns = [match[1] for text in steps if (match := _STEP_OUTPUT.match(text))]
    yield from output_paths(patterns, record.facts) if patterns else ()


def _dumps(record: JobRecord, submitted: Submission) -> Iterator[Path]:
    set_in_script = {part.name: part.text for part in submitted.parts if part.kind == "variable"}
    variables = {"PWD": ".", "SLURM_SUBMIT_DIR": ".", **set_in_script}
    for name in DUMP_FILES:
        pattern = variables.get(name) or (record.environment or {}).get(name, "")
        for _ in range(MOST_STEPS):
            pattern = _USED.sub(lambda used: variables.get(used[1], used[0]), pattern)
        for path in map(Path, output_paths([pattern], record.facts) if pattern else ()):
            with contextlib.suppress(OSError):  # a name may be too long
                yield from sorted(path.parent.glob(f"{glob.escape(path.name)}[0-9]*"))


def _end(facts: Mapping[str, str], logs: Examination) -> list[Finding]:
    """Return the findings for the job's final state. FAILED is used only if the logs show no cause."""
    state, known = _state(facts), load_findings().findings
    of_state = [Finding(known=entry) for entry in known.values() if state and entry.state == state]
    is_explained = any(finding.known.severity == BROKEN for finding in logs.findings)
    if of_state or state in (*GOOD_STATES, "") or is_explained:
        return of_state
    detail = f"Slurm reports state {state}, exit code {facts.get('ExitCode', 'unknown')}"
    return [Finding(known=known[FAILED], detail=detail)]


def _script_problems(submitted: Submission, known: Collection[str]) -> Iterator[Finding]:
    for problem in submitted.problems:
        if problem.rule.id not in known and (problem.severity != HINT or problem.rule.note):
            same = {name: getattr(problem.rule, name) for name in ("id", "what", "fix", "source", "position")}
            severity = {ERROR: BROKEN, HINT: NOTE}.get(problem.severity, RISK)
            rule = KnownFinding(severity=severity, why=problem.rule.cost, **same)
            yield Finding(known=rule, detail=problem.named, place=f"{SCRIPT}:{problem.position.line}")


def _tuned(
    environ: Mapping[str, str], submitted: Submission, *, system: str | None, runtime: str | None, recipe: str | None
) -> tuple[Tuned | None, str]:
    """Return the tuning for a job, or None and the reason. By default, the job's environment determines the system."""
    detected = None if system else recognised(environ) or recognised(os.environ)
    name = system or (detected[0] if detected else None)
    try:
        return current_tuning(
            environ, system=name, runtime=runtime or submitted.runtime, recipe=recipe or submitted.recipe
        )
    except BadInput as error:
        if system or runtime or recipe:
            raise
        return None, f"variables: {error}"  # for example, the system's file does not list the runtime


def _environment_faults(
    environ: Mapping[str, str], submitted: Submission, tuned: Tuned | None, options: Mapping[str, str]
) -> Iterator[Fault]:
    """Yield the faults in the environment at submission. Missing variables are no faults, the script may set them."""
    set_by_script = set(_set_by(submitted))
    environ = {name: value for name, value in environ.items() if name not in set_by_script}
    if tuned:
        activates = _ACTIVATES.search(submitted.text) is not None
        settings = [setting for setting in tuned.settings if setting.policy == DEFAULT or not activates]
        remaining = tuple(setting for setting in settings if setting.name not in set_by_script)
        tuned = dataclasses.replace(tuned, settings=remaining)
    cores = options.get(CORES, "")
    yield from faults(
        Snapshot(
            environ={"SLURM_NETWORK": options.get(NETWORK, ""), **environ},
            cores=int(cores[:6]) if cores.isdecimal() else None,
            tuned=tuned,
        )
    )


def _set_by(submitted: Submission) -> Iterator[str]:
    for part in submitted.parts:
        if part.kind == "variable":
            yield part.name
        elif part.kind == "command" and part.name == "unset":
            yield from part.text.split()[1:]

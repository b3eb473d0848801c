"""A job that ran or runs: its script, its output, its environment and its end, as Slurm has them, put together."""

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
from uenvtool.doctor.finding import Examination, Fault, Finding, as_findings, worst_first
from uenvtool.doctor.here import faults
from uenvtool.doctor.nodes import expanded
from uenvtool.doctor.ranks import SAME
from uenvtool.doctor.slurm import JobRecord, job_record, output_paths
from uenvtool.doctor.snapshot import Snapshot, Tuned
from uenvtool.doctor.variables import tuned_here
from uenvtool.knowledge.finding import BROKEN, RISK, KnownFinding, load_findings
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.rule import ERROR, HINT
from uenvtool.knowledge.tuning import DEFAULT

LIVE_STATES = ("CONFIGURING", "PENDING", "REQUEUED", "RESIZING", "RUNNING", "SUSPENDED")
"""The states of a job that has not ended; the exit code that Slurm has for it, 0:0, is none yet."""
GOOD_STATES = ("COMPLETED", "COMPLETING", *LIVE_STATES)
FAILED = "failed"
"""What is known of a job that failed, if nothing says why."""
_JOB = re.compile(r"\d+(_\d+)?(\+\d+)?\Z")
_STEP_OUTPUT = re.compile(r"srun(?:\s+-\S+(?:\s+[^-\s]\S*)?)*?\s+(?:--output[= ]|-o ?)[\"']?([^\s\"']+)")
"""Among the options of srun, each of which may have a value; what follows the command is the command's."""
LABELS = {"JobState": "state", "Reason": "reason", "ExitCode": "exit code", "NodeList": "nodes"}
SCRIPT, ENVIRONMENT = "script", "environment"
CORES, NETWORK = "cpus-per-task", "network"
_ACTIVATES = re.compile(r"uenvtool|activate/[\w-]+\.sh\b")
"""A line of a script that sets up what the tuning gives; a default keeps what was set before."""
IMAGES = ("uenv", "environment", "container-image")
"""The options of sbatch that name the software: of uenv, of the Container Engine, of pyxis."""
DUMP_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""The variables that say where PyTorch's flight recorder writes; the older name is the second."""
_USED = re.compile(r"\$\{?([A-Z_]+)\}?")
MOST_STEPS = 3
"""A variable of a script that is made of another one, which is made of a third."""
NO_OUTPUT = "output: it is not there, or was not named"


def examine_job(
    job: str, *, system: str | None = None, runtime: str | None = None, recipe: str | None = None
) -> Examination:
    """Return what Slurm still has of a job: its end, the flaws of its script, its variables, what its output says.

    Raises BadInput for a job that Slurm does not know and for names that do not exist, ToolMissing without Slurm.
    """
    if not _JOB.match(job):
        raise BadInput(f"{job!r} is not the id of a job", hint="name it as squeue does, for example 123456")
    record = job_record(job)
    submitted = submission(record.script, SCRIPT, system, record.environment or {}, record.facts.get("SubmitLine", ""))
    options = dict(submitted.options)
    if "Network" in record.facts:
        options[NETWORK] = record.facts["Network"]
    outputs = [
        path for path in dict.fromkeys(map(Path, _outputs(record, submitted, options))) if os.path.isfile(path)
    ]  # a name may be too long
    nodes = list(expanded(record.facts.get("NodeList", "")))
    files = [*outputs, *_dumps(record, submitted)]
    logs = examine_files(files, system=system, nodes=nodes) if files else Examination(unseen=(NO_OUTPUT,))
    found = {finding.known.id: finding for finding in [*_end(record.facts, logs), *logs.findings]}
    findings = [*found.values(), *_script_problems(submitted, found)]
    facts = list(_facts(record.facts))
    unseen = [*logs.unseen, *record.unseen]
    if record.environment is not None:
        tuned, why_not = _tuned(record.environment, submitted, system=system, runtime=runtime, recipe=recipe)
        wrong = as_findings(
            _environment_faults(record.environment, submitted, tuned, options), load_findings().findings
        )
        findings += [dataclasses.replace(finding, place=ENVIRONMENT) for finding in wrong]
        facts += [("runs on", f"{tuned.system}, in {tuned.runtime}")] if tuned else []
        unseen += [why_not] if why_not else []
    image, given = _image(options), _variables(record.environment or {}, submitted)
    runs = tuple(dataclasses.replace(run, image=image, variables={**given, **run.variables}) for run in logs.runs)
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(*facts, *logs.facts),
        unseen=tuple(unseen),
        runs=runs,
        quotes=logs.quotes,
    )


def _facts(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # an exit code of 0:0 stands also for a job that has not ended
    is_live = _state(facts) in LIVE_STATES
    for name, label in LABELS.items():
        if name in facts and not (is_live and name == "ExitCode"):
            yield label, facts[name]


def _state(facts: Mapping[str, str]) -> str:
    """Return the state of a job without what Slurm adds to it, such as who cancelled it."""
    return facts.get("JobState", "").partition(" ")[0]


def _image(options: Mapping[str, str]) -> str:
    return next((options[name] for name in IMAGES if options.get(name)), "")


def _variables(environ: Mapping[str, str], submitted: Submission) -> dict[str, str]:
    """Return what a job set for its network: what was there before stays where the script gives a default."""
    found = {name: value for name, value in environ.items() if SAME.fullmatch(name)}
    for part in submitted.parts:
        is_default = f"${{{part.name}" in part.text and part.name in environ
        if part.kind == "variable" and SAME.fullmatch(part.name) and not is_default:
            found[part.name] = part.text
    return dict(sorted(found.items()))


def _outputs(record: JobRecord, submitted: Submission, options: Mapping[str, str]) -> Iterator[str]:
    named = [record.facts[name] for name in ("StdOut", "StdErr") if name in record.facts]
    named = named or [options[name] for name in ("output", "error") if options.get(name)]
    yield from output_paths(named, record.facts)
    steps = [part.text for part in submitted.parts if part.kind == "command" and part.name == "srun"]
    patterns = [match[1] for text in steps if (match := _STEP_OUTPUT.match(text))]
    yield from output_paths(patterns, record.facts) if patterns else ()


def _dumps(record: JobRecord, submitted: Submission) -> Iterator[Path]:
    """Yield what the flight recorders wrote, where the script or the variables of the job name a place for it."""
    own = {part.name: part.text for part in submitted.parts if part.kind == "variable"}
    own = {"PWD": ".", "SLURM_SUBMIT_DIR": ".", **own}
    for name in DUMP_FILES:
        pattern = own.get(name) or (record.environment or {}).get(name, "")
        for _ in range(MOST_STEPS):
            pattern = _USED.sub(lambda used: own.get(used[1], used[0]), pattern)
        for path in map(Path, output_paths([pattern], record.facts) if pattern else ()):
            with contextlib.suppress(OSError):  # a name may be too long
                yield from sorted(path.parent.glob(f"{glob.escape(path.name)}[0-9]*"))


def _end(facts: Mapping[str, str], logs: Examination) -> list[Finding]:
    """Return what the state of the job says by itself; that it failed only if its output does not say why."""
    state, known = _state(facts), load_findings().findings
    found = [Finding(known=one) for one in known.values() if state and one.state == state]
    if found or state in (*GOOD_STATES, "") or any(one.known.severity == BROKEN for one in logs.findings):
        return found
    detail = f"Slurm has the state {state}, exit code {facts.get('ExitCode', 'unknown')}"
    return [Finding(known=known[FAILED], detail=detail)]


def _script_problems(submitted: Submission, known: Collection[str]) -> Iterator[Finding]:
    """Yield the problems that `uenvtool check` finds in the script, except hints."""
    for problem in submitted.problems:
        if problem.rule.id not in known and problem.severity != HINT:
            same = {name: getattr(problem.rule, name) for name in ("id", "what", "fix", "source", "position")}
            severity = BROKEN if problem.severity == ERROR else RISK
            rule = KnownFinding(severity=severity, why=problem.rule.cost, **same)
            yield Finding(known=rule, detail=problem.named, place=f"{SCRIPT}:{problem.position.line}")


def _tuned(
    environ: Mapping[str, str],
    submitted: Submission,
    *,
    system: str | None,
    runtime: str | None,
    recipe: str | None,
) -> tuple[Tuned | None, str]:
    """Return the tuning for a job, or why there is none. A job runs where Slurm is asked, if nothing names the system.

    Raises BadInput for names that do not exist.
    """
    seen = None if system else recognised(environ) or recognised(os.environ)
    name = system or (seen[0] if seen else None)
    try:
        return tuned_here(
            environ,
            system=name,
            runtime=runtime or submitted.runtime,
            recipe=recipe or submitted.recipe,
            folders=(),
            python=None,
        )
    except BadInput as error:
        if system or runtime or recipe:
            raise
        return None, f"variables: {error}"  # such as a runtime that this system is not known to have


def _environment_faults(
    environ: Mapping[str, str], submitted: Submission, tuned: Tuned | None, options: Mapping[str, str]
) -> Iterator[Fault]:
    """Yield what is wrong with the variables that a job was submitted with, but for those that its script sets itself.

    What is missing is a matter of the script. options: those of sbatch.
    """
    own = set(_set_by(submitted))
    environ = {name: value for name, value in environ.items() if name not in own}
    if tuned:
        activates = _ACTIVATES.search(submitted.text) is not None
        settings = [setting for setting in tuned.settings if setting.policy == DEFAULT or not activates]
        tuned = dataclasses.replace(tuned, settings=tuple(setting for setting in settings if setting.name not in own))
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

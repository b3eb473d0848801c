"""What is known of a variable, a rule or a finding, and what will be set in a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from uenvtool.activation.explained import (
    ExplainedEntry,
    ExplainedVariable,
    explained_finding,
    explained_rule,
    explained_variable,
    value_text,
)
from uenvtool.activation.request import ExplainRequest
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.kinds import FINDINGS, RULES, TUNING
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.rule import load_rules
from uenvtool.knowledge.settings import Settings, known_facts, settings_for
from uenvtool.knowledge.system import System, recognised
from uenvtool.knowledge.tuning import load_all

ALL = "uenvtool explain --all"


def explain(request: ExplainRequest) -> Result:
    """Return what is known of variables, rules of `check` and findings of `doctor`.

    With a system, runtime or version, and on a machine that is known, it says what is set there.

    Raises BadInput for a name that nobody knows, and if nothing is named.
    """
    names = request.names
    facts = known_facts({"nccl": request.nccl} if request.nccl is not None else {})
    here = None
    if request.system or request.runtime or request.recipe or facts or (names and recognised()):
        here = settings_for(request.system, runtime=request.runtime, recipe=request.recipe, facts=facts)
    if here is not None and not names:
        return _in_a_job(here)
    if not names and not request.all:
        raise BadInput(
            "name a variable, --system for what is set there, or --all", hint="for example `uenvtool explain NCCL_NET`"
        )
    has_ids = any(name.islower() for name in names)  # not only variables, for which no rules are read
    rules = load_rules() if has_ids else {}
    findings = load_findings().findings if has_ids else {}
    tuning = load_all()
    variables = grouped((variable.name, variable) for variable in tuning.variables)
    others = [name for name in names if name not in rules and name not in findings]
    wanted = sorted(variables) if request.all else _known_names(others, variables)
    entries: list[ExplainedEntry | ExplainedVariable] = [
        *(explained_rule(rules[name]) for name in names if name in rules),
        *(explained_finding(findings[name]) for name in names if name in findings),
        *(explained_variable(name, variables[name], tuning, here) for name in wanted),
    ]
    return Result(
        data=[entry.parts for entry in entries],
        text="\n\n".join(entry.text for entry in entries),
        notes=skipped_file_notes(TUNING, RULES, FINDINGS),
    )


def _in_a_job(here: Settings) -> Result:
    """Return the table of what is set, and what was not known when it was made."""
    runtime = here.runtimes[0]
    rows = [(setting.name, value_text(setting), f"{setting.reason} [{setting.source.name}]") for setting in here.held()]
    notes = [f"on {here.system.name}, in {runtime.name}: {runtime.description}"]
    if len(here.runtimes) > 1:
        others = ", ".join(other.name for other in here.runtimes[1:])
        notes.append(f"--runtime names another runtime: {others}")
    unseen = sorted(here.facts_to_find & {"nccl"} - set(here.given))
    notes += [f"for an unknown version of {fact}; --{fact} names it" for fact in unseen]
    return Result(
        data=[{"name": name, "value": value, "reason": reason} for name, value, reason in rows],
        tables=(Table(headings=("variable", "value", "why"), rows=rows),),
        notes=(*notes, *_partitions(here.system), *here.system.notes, *runtime.limits),
    )


def _partitions(system: System) -> Iterator[str]:
    """Yield what a job may have in each partition that has limits."""
    for one in system.jobs.partitions.values():
        reason = f" ({one.reason})" if one.reason else ""
        yield f"at most a job in {one.name}: {one.limits or 'no limit'}{reason} [{one.source}]"


def _known_names(names: Sequence[str], variables: Iterable[str]) -> list[str]:
    """Return the variables of those names, in capitals or not. Raises BadInput for a name that nobody knows."""
    by_fold = {name.casefold(): name for name in variables}
    BadInput.raise_any(
        unknown("variable", name, by_fold.values(), listed_by=ALL) for name in names if name.casefold() not in by_fold
    )
    return [by_fold[name.casefold()] for name in names]

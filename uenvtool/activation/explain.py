"""What is known of a variable, a rule, a finding or a source, and what will be set in a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from uenvtool.activation.answer import answer, value_here
from uenvtool.activation.explained import (
    ExplainedEntry,
    ExplainedVariable,
    explained_finding,
    explained_rule,
    explained_source,
    explained_variable,
    place_of,
    value_text,
)
from uenvtool.activation.request import ExplainRequest
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Line, Result, Table
from uenvtool.core.words import grouped, wrapped
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.kinds import FINDINGS, RULES, TUNING
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.rule import load_rules
from uenvtool.knowledge.settings import Settings, known_facts, settings_for
from uenvtool.knowledge.sources import legend, load_sources
from uenvtool.knowledge.system import System
from uenvtool.knowledge.tuning import THE_HOOK, load_all

ALL = "uenvtool explain --all"
ROOM = 120
"""So many columns show a variable in one or two lines of a table."""
REST = "--verbose: what it is set to elsewhere, and who says what"


def explain(request: ExplainRequest) -> Result:
    """Return what is known of variables, rules of `check`, findings of `doctor` and sources.

    With a system, runtime or version, and on a machine that is known, it says what is set there, and the rest only if
    that is asked for.

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
    sources = load_sources() if has_ids else {}
    tuning = load_all()
    variables = grouped((variable.name, variable) for variable in tuning.variables)
    others = [name for name in names if not any(name in known for known in (rules, findings, sources))]
    wanted = sorted(variables) if request.all else _known_names(others, variables)
    whose = "" if facts else None  # of a version that is given, not of the recipe
    values = {name: value_here(name, tuning, here, whose) if here else None for name in wanted}
    entries: list[ExplainedEntry | ExplainedVariable] = [
        *(explained_rule(rules[name]) for name in names if name in rules),
        *(explained_finding(findings[name]) for name in names if name in findings),
        *(explained_source(sources[name], tuning) for name in names if name in sources),
        *(explained_variable(name, variables[name], tuning, here, values[name]) for name in wanted),
    ]
    is_brief = here is not None and not request.verbose
    return Result(
        data=[entry.parts for entry in entries],
        text="\n\n".join(
            answer(entry, tuning, here) if here and is_brief and isinstance(entry, ExplainedVariable) else entry.text
            for entry in entries
        ),
        notes=(*((REST,) if is_brief and wanted else ()), *skipped_file_notes(TUNING, RULES, FINDINGS)),
    )


def _in_a_job(here: Settings) -> Result:
    """Return the table of what is set, and what was not known when it was made."""
    runtime = here.runtimes[0]
    by_hook = {setting.name: setting for setting in here.by_hook}
    told = [("", setting) for setting in here.held() if setting.name not in by_hook]
    told += [(f"{THE_HOOK}: ", setting) for setting in by_hook.values()]
    rows = [(one.name, value_text(one), f"{whose}{one.reason} [{one.source.name}]") for whose, one in told]
    notes = [f"{place_of(here)}: {runtime.description}"]
    if len(here.runtimes) > 1:
        others = ", ".join(other.name for other in here.runtimes[1:])
        notes.append(f"--runtime names another runtime: {others}")
    unseen = sorted(here.facts_to_find & {"nccl"} - set(here.given))
    notes += [f"for an unknown version of {fact}; --{fact} names it" for fact in unseen]
    return Result(
        data=[{"name": name, "value": value, "reason": reason} for name, value, reason in rows],
        report=lambda columns: _laid_out(rows, legend(one.source for _, one in told), columns),
        notes=(*notes, *_partitions(here.system), *here.system.notes, *runtime.limits),
    )


def _laid_out(rows: Sequence[tuple[str, str, str]], sources: Sequence[str], columns: int) -> Iterator[Line | Table]:
    """Yield what is set for a terminal of so many columns; a reason stands below its value where there is no room."""
    if 0 < columns < ROOM:
        for name, value, reason in rows:
            yield [(name, "bold"), (f"  {value}", "")]
            yield from ([(line, "dim")] for line in wrapped(reason, columns, "    ", "    "))
    else:
        yield Table(headings=("variable", "value", "why"), rows=rows)
    yield []
    yield from ([(line, "")] for source in sources for line in (wrapped(source, columns or len(source), "", "    ")))


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

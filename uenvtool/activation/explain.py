"""Implements `uenvtool explain`, which describes variables, rules, findings and sources, and lists a job's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from uenvtool.activation import explained
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
_TABLE_WIDTH = 120
"""The minimum number of columns for a table; narrower terminals get lines."""
_MORE = "to see the values on other systems and in all sources, add --verbose"


def explain(request: ExplainRequest) -> Result:
    """Return descriptions of variables, rules of `check`, findings of `doctor` and sources.

    If the system is known, a variable's description is its value on that system, and --verbose adds everything else.

    Raises BadInput if a name is unknown, or without a name, system or --all.
    """
    names = request.names
    facts = known_facts({"nccl": request.nccl} if request.nccl is not None else {})
    place = None
    if request.system or request.runtime or request.recipe or facts or (names and recognised()):
        place = settings_for(request.system, runtime=request.runtime, recipe=request.recipe, facts=facts)
    if place is not None and not names:
        return _in_a_job(place)
    if not names and not request.all:
        hint = "name a variable, as in `uenvtool explain NCCL_NET`, or add --system SYSTEM or --all"
        raise BadInput("explain requires a name, --system or --all", hint=hint)
    tuning = load_all()
    described: list[tuple[Mapping[str, Any], Callable[[Any], explained.Explained]]] = []
    if any(name.islower() for name in names):  # names of variables are upper case
        described = [(load_rules(), explained.explained_rule), (load_findings().findings, explained.explained_finding)]
        described.append((load_sources(), lambda source: explained.explained_source(source, tuning)))
    variables = grouped((variable.name, variable) for variable in tuning.variables)
    other_names = [name for name in names if not any(name in known for known, _ in described)]
    variable_names = sorted(variables) if request.all else _known_names(other_names, variables)
    owner = "" if facts else None  # a version on the command line does not belong to the recipe
    is_brief = place is not None and not request.verbose
    entries = [describe(known[name]) for known, describe in described for name in names if name in known]
    entries += (
        explained.explained_variable(name, variables[name], tuning, place, owner, is_brief=is_brief)
        for name in variable_names
    )
    return Result(
        data=[entry.data for entry in entries],
        text="\n\n".join(entry.text for entry in entries),
        notes=(*((_MORE,) if is_brief and variable_names else ()), *skipped_file_notes(TUNING, RULES, FINDINGS)),
    )


def _in_a_job(place: Settings) -> Result:
    runtime = place.runtimes[0]
    by_hook = {setting.name: setting for setting in place.by_hook}
    settings = [*(setting for setting in place.held() if setting.name not in by_hook), *by_hook.values()]
    rows = []
    for setting in settings:
        setter = f"{THE_HOOK}: " if setting in place.by_hook else ""
        rows.append((setting.name, explained.value_text(setting), f"{setter}{setting.reason} [{setting.source.name}]"))
    notes = [f"{explained.place_of(place)}: {runtime.description}"]
    if len(place.runtimes) > 1:
        others = ", ".join(other.name for other in place.runtimes[1:])
        notes.append(f"for another runtime, add --runtime: {others}")
    unknown_versions = sorted(place.facts_to_find & {"nccl"} - set(place.given))
    notes += [f"the version of {fact} is unknown; name it with --{fact}" for fact in unknown_versions]
    return Result(
        data=[{"name": name, "value": value, "reason": reason} for name, value, reason in rows],
        report=lambda columns: _laid_out(rows, legend(setting.source for setting in settings), columns),
        notes=(*notes, *_partitions(place.system), *place.system.notes, *runtime.limits),
    )


def _laid_out(rows: Sequence[tuple[str, str, str]], sources: Sequence[str], columns: int) -> Iterator[Line | Table]:
    """Yield the settings as a table, or on a narrow terminal as lines with each reason below its value."""
    if 0 < columns < _TABLE_WIDTH:
        for name, value, reason in rows:
            yield [(name, "bold"), (f"  {value}", "")]
            yield from ([(line, "dim")] for line in wrapped(reason, columns, "    ", "    "))
    else:
        yield Table(headings=("variable", "value", "why"), rows=rows)
    yield []
    yield from ([(line, "")] for source in sources for line in (wrapped(source, columns or len(source), "", "    ")))


def _partitions(system: System) -> Iterator[str]:
    named = [(partition.name, partition) for partition in system.jobs.partitions.values()]
    named += [(f"the QOS {qos.name}{', the default' if qos.default else ''}", qos) for qos in system.jobs.qos.values()]
    for name, limit in named:
        reason = f" ({limit.reason})" if limit.reason else ""
        yield f"limits of a job in {name}: {limit.limits or 'none'}{reason} [{limit.source}]"


def _known_names(names: Sequence[str], variables: Iterable[str]) -> list[str]:
    """Return the variables with these names, ignoring case. Raises BadInput if a name is unknown."""
    by_fold = {name.casefold(): name for name in variables}
    BadInput.raise_any(
        unknown("variable", name, by_fold.values(), listed_by=ALL) for name in names if name.casefold() not in by_fold
    )
    return [by_fold[name.casefold()] for name in names]

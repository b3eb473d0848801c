"""What is known of a variable, and what will be set in a job: settings, why, who says so, what others say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from uenvtool.activation.request import ExplainRequest
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped
from uenvtool.knowledge.finding import finding_text, findings_named
from uenvtool.knowledge.kinds import FINDINGS, RULES, TUNING
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.rule import rule_text, rules_named
from uenvtool.knowledge.settings import Settings, known_facts, settings_for
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.system import recognised
from uenvtool.knowledge.tuning import (
    AT_MOST,
    DEFAULT,
    EXPECTED,
    PREPEND,
    REQUIRED,
    UNSET,
    Guard,
    Setting,
    TunedVariable,
    Tuning,
    Value,
    load_all,
)

POLICIES = {
    DEFAULT: "set if it is unset",
    AT_MOST: "set if it is unset, and over a larger number",
    PREPEND: "put in front of what is there",
    REQUIRED: "set, also over another value",
    UNSET: "removed",
    EXPECTED: "set by somebody else; a message if it is missing",
}
ALL = "uenvtool explain --all"
COMPUTED = {
    "cores": "the cores of a process",
    "view_root": "the view's folder",
    "roce_gid_index": "the index found under /sys",
    "roce_hca": "the start of the devices' names",
    "runai_gpus": "RUNAI_NUM_OF_GPUS",
    "temporary": "a folder of the user's and the job's below /tmp",
}
"""What the values are that scripts compute."""


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
    rules, findings = rules_named(names), findings_named(names)
    taken = {entry["rule"] for entry in rules} | {entry["finding"] for entry in findings}
    others = [name for name in names if name not in taken]
    tuning = load_all()
    variables = _by_name(tuning)
    wanted = sorted(variables) if request.all else _known_names(others, variables)
    entries = [_data(name, variables[name], tuning, here) for name in wanted]
    texts = [*map(rule_text, rules), *map(finding_text, findings), *("\n".join(_lines(entry)) for entry in entries)]
    return Result(
        data=[*rules, *findings, *entries], text="\n\n".join(texts), notes=skipped_file_notes(TUNING, RULES, FINDINGS)
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
        notes=(*notes, *here.system.notes, *runtime.limits),
    )


def _known_names(names: Sequence[str], variables: Iterable[str]) -> list[str]:
    """Return the variables of those names, in capitals or not. Raises BadInput for a name that nobody knows."""
    by_fold = {name.casefold(): name for name in variables}
    BadInput.raise_any(
        unknown("variable", name, by_fold.values(), listed_by=ALL) for name in names if name.casefold() not in by_fold
    )
    return [by_fold[name.casefold()] for name in names]


def _lines(entry: Mapping[str, Any]) -> list[str]:
    lines = [f"{entry['name']}  ({', '.join(entry['files'])})"]
    if entry["page"]:
        lines.append(f"  {entry['page']}")
    if entry["about"]:
        lines.append(f"  {entry['about']}")
    if entry["here"] is not None:
        lines.append(f"  {entry['here']}")
    for setting in entry["settings"]:
        lines.append(f"  {setting['shown']}")
        lines += [f"    {word + ':':8} {setting[key]}" for word, key in _SHOWN if setting[key]]
    return [*lines, *_who_says_what(entry), *_danger(entry)]


def _who_says_what(entry: Mapping[str, Any]) -> list[str]:
    said_by = grouped((value, f"{source} ({since})") for source, since, value, _ in entry["says"])
    followed: dict[str, list[str]] = {value: [] for value in said_by}
    for setting in entry["settings"]:
        value = "unset" if setting["policy"] == UNSET else setting["value"]
        if value in followed and setting["source"] not in followed[value]:
            followed[value].append(setting["source"])
    rows = [("value", "followed", "said by")]
    rows += [(value, ", ".join(followed[value]) or "-", ", ".join(sources)) for value, sources in said_by.items()]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    heading = "who says what; they contradict each other:" if len(said_by) > 1 else "who says what:"
    return [f"  {heading}", *(f"    {value:{first}}  {by:{second}}  {sources}" for value, by, sources in rows)]


def _danger(entry: Mapping[str, Any]) -> Iterator[str]:
    """Give the lines of what sources say besides, and of the dangers that the variable can keep away."""
    yield from (f"    {source} ({since}): {words}" for source, since, words in entry["remarks"])
    for guard in entry["guards"]:
        yield from (f"  {guard['danger']}: {guard['reason']}", f"    {'when:':8} {guard['when']}")
        yield from (f"    {'enough:':8} {way} ({source})" for way, source in guard["ways"])
        yield from ([f"    {'here:':8} {guard['here']}"] if guard["here"] else [])


_SHOWN = (
    ("how", "how"),
    ("when", "when"),
    ("why", "reason"),
    ("cost", "cost"),
    ("source", "cited"),
    ("apart", "conflicts"),
    ("set", "set"),
    ("needs", "needs"),
)
"""The word before each part of a setting, and its key."""


def _by_name(tuning: Tuning) -> dict[str, list[TunedVariable]]:
    return grouped((variable.name, variable) for variable in tuning.variables)


def _says(variables: Sequence[TunedVariable]) -> dict[str, Value]:
    """Return what each source says of a variable that several files may describe."""
    return {source: value for variable in variables for source, value in variable.says.items()}


def _data(name: str, variables: Sequence[TunedVariable], tuning: Tuning, here: Settings | None) -> dict[str, Any]:
    says = _says(variables)
    sources = {**load_sources(), **{setting.source.name: setting.source for setting in tuning.settings}}
    settings = [setting for setting in tuning.settings if setting.name == name]
    settings += [setting for found in tuning.workarounds.values() for setting in found.settings if setting.name == name]
    return {
        "name": name,
        "files": [variable.file for variable in variables],
        "page": next((variable.page for variable in variables if variable.page), None),
        "type": variables[0].type,
        "about": next((variable.about for variable in variables if variable.about), ""),
        "here": None if here is None else _here(name, here),
        "settings": [_setting(setting, tuning) for setting in settings],
        "says": [
            [source, sources[source].date, _words_of_source(says, source), sources[source].url]
            for source in sources
            if source in says
        ],
        "remarks": [
            [source, sources[source].date, variable.remarks[source]]
            for variable in variables
            for source in sources
            if source in variable.remarks
        ],
        "guards": [_guard(guard, here) for guard in tuning.guards if name in guard.variables],
    }


def _guard(guard: Guard, here: Settings | None) -> dict[str, Any]:
    taken = ""
    if here is not None and guard.name in {found.name for found in here.guards}:
        runtime = here.runtimes[0]
        way = guard.way({found.name: found.value for found in here.held() if found.is_fixed and found.value})
        taken = f"on {here.system.name}, in {runtime.name}: {f'kept away by {way}' if way else 'not kept away'}"
    elif here is not None:
        taken = f"on {here.system.name}: not in danger"
    return {
        "name": guard.name,
        "danger": guard.danger,
        "reason": guard.reason,
        "when": guard.when.text,
        "ways": [[str(way), way.source.name] for way in guard.one_of],
        "source": guard.source.name,
        "here": taken,
    }


def _here(name: str, here: Settings) -> str:
    runtime = here.runtimes[0]
    place = f"on {here.system.name}, in {runtime.name}"
    holding = [setting for setting in here.held() if setting.name == name]
    if not holding:
        return f"{place}: not set"
    return f"{place}: {value_text(holding[0])}, as {holding[0].source.name} says: {holding[0].reason}"


def _setting(setting: Setting, tuning: Tuning) -> dict[str, Any]:
    workaround = tuning.workarounds.get(setting.workaround)
    return {
        "value": setting.value,
        "shown": value_text(setting),
        "computed": setting.from_ or None,
        "policy": setting.policy,
        "how": POLICIES[setting.policy],
        "when": f"--workaround {workaround.name}: {workaround.symptom}"
        if workaround
        else setting.when.text or "always",
        "reason": "" if workaround else setting.reason,
        "cost": workaround.cost if workaround else "",
        "source": setting.source.name,
        "cited": f"{setting.source.name}: {setting.source} {setting.source.url}".rstrip(),
        "since": setting.source.date,
        "url": setting.source.url,
        "conflicts": f"must not be set beside {', '.join(setting.conflicts)}" if setting.conflicts else "",
        "set": f"all of the set {setting.together}, or nothing of it" if setting.together else "",
        "needs": setting.needs.hint if setting.needs else "",
    }


def _words_of_source(says: Mapping[str, Value], source: str) -> str:
    if source not in says:
        return "-"
    value = says[source]
    return "unset" if value is None else value


def value_text(setting: Setting) -> str:
    """Return what a variable is set to, or what happens to it."""
    if setting.from_:
        return COMPUTED[setting.from_]
    if setting.policy in (UNSET, EXPECTED):
        return "removed" if setting.policy == UNSET else "left to somebody else"
    return setting.value or ""

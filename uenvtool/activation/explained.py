"""Describes variables, rules, findings and sources, as data for `--json` and as text.

A place is a system with a runtime and software versions. A variable's short description is for one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uenvtool.core.words import grouped, listed
from uenvtool.knowledge.finding import KnownFinding
from uenvtool.knowledge.left_out import LeftOut, in_recipes, left_out, versions_of, why
from uenvtool.knowledge.rule import Rule
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.sources import Source, load_sources
from uenvtool.knowledge.tuning import EXPECTED, THE_HOOK, UNSET, Guard, Setting, TunedVariable, Tuning

POLICIES = {
    "default": "set if it is unset",
    "at-most": "set if it is unset or a larger number",
    "prepend": "prepended to the existing value",
    "required": "set, and replaces any other value",
    "unset": "always removed",
    "expected": "not set by uenvtool, which prints a message if it is unset",
}
COMPUTED = {
    "cores": "the number of cores per process",
    "view_root": "the view's directory",
    "venv_site": "the packages of a virtual environment made by another tool",
    "roce_gid_index": "the index found in /sys",
    "roce_hca": "the common prefix of the devices' names",
    "runai_gpus": "RUNAI_NUM_OF_GPUS",
    "temporary": "a directory in /tmp for the user and the job",
}
"""Descriptions of the values that scripts compute."""
ROWS = {
    "how": "how",
    "when": "when",
    "why": "reason",
    "cost": "cost",
    "source": "cited",
    "avoid": "conflicts",
    "set": "set",
    "needs": "needs",
}
"""The labels of the lines that describe a setting, with the field that each of them shows."""
SOURCES_SHOWN = 2
"""How many sources the short description lists for each other value."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A description of a variable, rule, finding or source: the data that `--json` prints, and its text."""

    data: Mapping[str, Any]
    text: str


def explained_variable(
    name: str,
    variables: Sequence[TunedVariable],
    tuning: Tuning,
    place: Settings | None = None,
    owner: str | None = None,
    *,
    is_brief: bool = False,
) -> Explained:
    """Return the description of a variable.

    variables: the descriptions of the variable in the tuning files.
    owner: the name in the phrase `OWNER has VERSION`; default: the recipe; empty: the phrase is `here it is VERSION`.
    is_brief: whether the text contains only the short description.
    """
    value = _value_in_place(name, tuning, place, owner) if place else None
    workarounds = (setting for workaround in tuning.workarounds.values() for setting in workaround.settings)
    settings = [_setting(setting, tuning) for setting in (*tuning.settings, *workarounds) if setting.name == name]
    page = next((variable.page for variable in variables if variable.page), None)
    about = _about(variables)
    says = _values_by_source(variables, tuning)
    remarks = [
        (source, known.date, variable.remarks[source])
        for variable in variables
        for source, known in _sources(tuning).items()
        if source in variable.remarks
    ]
    guards = [_guard(guard, place) for guard in tuning.guards if name in guard.variables]
    files = [variable.file for variable in variables]
    data = {
        "name": name,
        "files": files,
        "page": page,
        "type": variables[0].type,
        "about": about,
        "here": value,
        "settings": settings,
        "says": says,
        "remarks": remarks,
        "guards": guards,
    }
    if place and is_brief:
        return Explained(data, "\n".join(_lines_in_place(name, variables, tuning, place, value)))
    lines = [f"{name}  ({', '.join(files)})", *(f"  {line}" for line in (page, about, value) if line)]
    for setting in settings:
        rows = [_row(word, setting[field]) for word, field in ROWS.items() if setting[field]]
        lines += [f"  {setting['shown']}", *rows]
    lines += _table_of_values(says, settings)
    lines += [f"    {source} ({since}): {words}" for source, since, words in remarks]
    for guard in guards:
        lines += [f"  {guard['danger']}: {guard['reason']}", _row("when", guard["when"])]
        lines += [_row("any of", f"{way} ({source})") for way, source in guard["ways"]]
        lines += [_row("here", guard["here"])] if guard["here"] else []
    return Explained(data, "\n".join(lines))


def _about(variables: Iterable[TunedVariable]) -> str:
    return next((variable.about for variable in variables if variable.about), "")


def _values_by_source(variables: Iterable[TunedVariable], tuning: Tuning) -> list[tuple[str, str, str, str]]:
    """Return the name, date, value and URL of each source that has a value for a variable."""
    says = {source: value for variable in variables for source, value in variable.says.items()}
    return [
        (source, known.date, "unset" if (value := says[source]) is None else value, known.url)
        for source, known in _sources(tuning).items()
        if source in says
    ]


def _sources(tuning: Tuning) -> dict[str, Source]:
    return {**load_sources(), **{setting.source.name: setting.source for setting in tuning.settings}}


def _table_of_values(says: Sequence[tuple[str, str, str, str]], settings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a table of the values of a variable: which source has a value, and which source's value a setting uses."""
    sources_by_value = grouped((value, f"{source} ({since})") for source, since, value, _ in says)
    adopted_by: dict[str | None, list[str]] = {value: [] for value in sources_by_value}
    for setting in settings:
        value = "unset" if setting["policy"] == UNSET else setting["value"]
        if value in adopted_by and setting["source"] not in adopted_by[value]:
            adopted_by[value].append(setting["source"])
    rows = [("value", "adopted from", "sources")]
    rows += [
        (value, ", ".join(adopted_by[value]) or "-", ", ".join(sources)) for value, sources in sources_by_value.items()
    ]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    yield "  values by source, which contradict each other:" if len(sources_by_value) > 1 else "  values by source:"
    yield from (f"    {value:{first}}  {adopters:{second}}  {sources}" for value, adopters, sources in rows)


def _setting(setting: Setting, tuning: Tuning) -> dict[str, Any]:
    workaround = tuning.workarounds.get(setting.workaround)
    asked_for = f"--workaround {workaround.name}: {workaround.symptom}" if workaround else ""
    return {
        "value": setting.value,
        "shown": value_text(setting),
        "computed": setting.from_ or None,
        "policy": setting.policy,
        "how": POLICIES[setting.policy],
        "when": asked_for or setting.when.text or "always",
        "reason": "" if workaround else setting.reason,
        "cost": workaround.cost if workaround else "",
        "source": setting.source.name,
        "cited": f"{setting.source.name}: {setting.source} {setting.source.url}".rstrip(),
        "since": setting.source.date,
        "url": setting.source.url,
        "conflicts": f"do not set it together with {', '.join(setting.conflicts)}" if setting.conflicts else "",
        "set": f"set only together with all variables of {setting.together}" if setting.together else "",
        "needs": setting.needs.hint if setting.needs else "",
    }


def _guard(guard: Guard, place: Settings | None) -> dict[str, Any]:
    """Return the description of a guarded problem as data. `ways` contains the settings that prevent the problem."""
    effect = f"on {place.system.name}: not in danger" if place else ""
    if place and guard.name in {present.name for present in place.guards}:
        effect = f"{place_of(place)}: {_prevention(guard, place)}"
    return {
        "name": guard.name,
        "danger": guard.danger,
        "reason": guard.reason,
        "when": guard.when.text,
        "ways": [(str(way), way.source.name) for way in guard.one_of],
        "source": guard.source.name,
        "here": effect,
    }


def _held_in(name: str, place: Settings) -> Setting | None:
    return next((setting for setting in (*place.by_hook, *place.held()) if setting.name == name), None)


def _value_in_place(name: str, tuning: Tuning, place: Settings, owner: str | None) -> str:
    """Return a sentence with a variable's value in a place and the reason, or the reason why the variable is unset."""
    if held := _held_in(name, place):
        setter = f", set by {THE_HOOK}" if held in place.by_hook else ""
        condition = _condition(held, place)
        only = f"; {condition}" if condition else ""
        return f"{place_of(place)}: {value_text(held)}{setter}; source {held.source.name}: {held.reason}{only}"
    not_set = f"{place_of(place)}: not set"
    nearest = _nearest(name, tuning, place)
    if nearest is None:
        is_set = any(setting.name == name for setting in tuning.settings)
        return not_set if is_set else f"{not_set} on any system: choose a value yourself"
    versions = () if nearest.failing else in_recipes(nearest, place)
    return "; ".join((f"{not_set}, {why(nearest, place, owner)}", *versions))


def _lines_in_place(
    name: str, variables: Sequence[TunedVariable], tuning: Tuning, place: Settings, value: str | None
) -> Iterator[str]:
    held = _held_in(name, place)
    rows = [("about", _about(variables))]
    if held:
        described = _setting(held, tuning)
        how = f"set by {THE_HOOK}" if held in place.by_hook else described["how"]
        source = f"{held.source.name} ({held.source.date}) {held.source.url}".rstrip()
        rows += [("why", held.reason), ("when", _condition(held, place)), ("how", how)]
        rows += [("avoid", described["conflicts"]), ("needs", described["needs"]), ("source", source)]
    elif (nearest := _nearest(name, tuning, place)) and nearest.needs_version:
        if_known = nearest.setting
        rows.append(("would be", f"{value_text(if_known)}: {if_known.reason} [{if_known.source.name}]"))
    dangers = [guard for guard in place.guards if name in guard.variables]
    rows += [("danger", f"{guard.danger}; here {_prevention(guard, place)}") for guard in dangers]
    used = "unset" if held and held.removes else held.value if held else None
    says = _values_by_source(variables, tuning)
    sources = grouped((value, source) for source, _, value, _ in says if value != used)
    others = (f"{value} ({listed(names, SOURCES_SHOWN)})" for value, names in sources.items())
    rows.append(("others" if held else "values", "; ".join(others)))
    workarounds = tuning.workarounds.values()
    setters = [known.name for known in workarounds if name in {setting.name for setting in known.settings}]
    rows.append(("option", f"--workaround {' or '.join(setters)} sets it" if setters else ""))
    yield name
    yield f"  {f'{place_of(place)}: {value_text(held)}' if held else value}"
    yield from (_row(word, text) for word, text in rows if text)


def _row(word: str, text: str) -> str:
    return f"    {word + ':':8} {text}"


def _nearest(name: str, tuning: Tuning, place: Settings) -> LeftOut | None:
    return next(iter(left_out(place, [setting for setting in tuning.settings if setting.name == name])), None)


def _condition(held: Setting, place: Settings) -> str:
    """Return the versions on which a setting still depends in a place, or "" if all versions are known."""
    undecided = versions_of(held, place)
    if not undecided.open:
        return ""
    return "; ".join((f"{why(undecided, place)}, or if the version is unknown", *in_recipes(undecided, place)))


def place_of(place: Settings) -> str:
    """Return a place's system and runtime as text."""
    return f"on {place.system.name}, in {place.runtimes[0].name}"


def _prevention(guard: Guard, place: Settings) -> str:
    held = (*place.held(), *place.by_hook)
    way = guard.way({setting.name: setting.value for setting in held if setting.is_fixed and setting.value})
    return f"prevented by {way}" if way else "not prevented"


def explained_rule(rule: Rule) -> Explained:
    """Return the description of a rule of `check`."""
    parts = {name: getattr(rule, name) for name in ("severity", "what", "cost", "fix", "source")}
    parts |= {"file": str(rule.position), "page": rule.page or None}
    return Explained({"rule": rule.id, **parts}, _laid_out(f"{rule.id}  (uenvtool check)", parts.items(), 10))


def explained_finding(finding: KnownFinding) -> Explained:
    """Return the description of a finding of `doctor`."""
    remedy = finding.workaround
    condition = f", if {remedy.when}" if remedy and remedy.when.terms else ""
    messages = finding.messages or [line.text.strip() for line in finding.log]
    lines = [line for text in messages for line in text.splitlines()]
    parts = {
        **{name: getattr(finding, name) for name in ("severity", "what", "why", "fix")},
        "paste": finding.command,
        "workaround": f"{remedy.name}{condition}" if remedy else "",
        "lines": lines,
        "source": finding.source,
        "file": str(finding.position),
        "page": finding.page or None,
    }
    shown = {**parts, "paste": f"`{finding.command}`" if finding.command else "", "lines": ""}
    text = _laid_out(f"{finding.id}  (uenvtool doctor)", shown.items(), 11)
    text += "".join(f"\n  {'in a log:':<11} {line}" for line in lines)
    return Explained({"finding": finding.id, **parts}, text)


def explained_source(source: Source, tuning: Tuning) -> Explained:
    """Return the description of a source, with the variables that have a value from this source."""
    variables = list(dict.fromkeys(setting.name for setting in tuning.settings if setting.source.name == source.name))
    parts = {"title": source.title, "date": source.date, "url": source.url, "site": source.site}
    rows = [*parts.items(), ("values", ", ".join(variables))]
    text = _laid_out(f"{source.name}  (a source of values)", rows, 8)
    return Explained({"source": source.name, **parts, "variables": variables}, text)


def _laid_out(title: str, rows: Iterable[tuple[str, Any]], width: int) -> str:
    return "\n".join([title, *(f"  {name + ':':<{width}} {part}" for name, part in rows if part)])


def value_text(setting: Setting) -> str:
    """Return the value of a setting as text, or its effect if it has no fixed value."""
    if setting.from_:
        return COMPUTED[setting.from_]
    if setting.policy in (UNSET, EXPECTED):
        return "removed" if setting.policy == UNSET else "not set by uenvtool"
    return setting.value or ""

"""What is known of a variable: its settings, why, who says so, what other sources say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uenvtool.commands.job.rules import rule_text, rules_named
from uenvtool.errors import BadInput, unknown
from uenvtool.model.condition import Facts
from uenvtool.model.system_reader import load_system
from uenvtool.model.tuning import DEFAULT, EXPECTED, REQUIRED, UNSET, Setting, TunedVariable, Tuning, Value, applicable
from uenvtool.model.tuning_reader import load_all, load_sources, load_tuning
from uenvtool.result import Result, Table

POLICIES = {
    DEFAULT: "default: only where the variable is unset",
    REQUIRED: "required: also over another value, which is said",
    UNSET: "unset: removed, which is said",
    EXPECTED: "expected: set by somebody else; where it is unset, a warning",
}


def explain(names: Sequence[str], everything: bool, system: str | None) -> Result:
    """What is known of variables, and of rules of `job check`. Raises BadInput for a name that is neither."""
    rules = rules_named(names) if any(name.islower() for name in names) else []
    variables = [name for name in names if name not in {entry["rule"] for entry in rules}]
    entries = explained(variables, everything, system) if variables or everything or not rules else []
    texts = [*map(rule_text, rules), *([as_text(entries)] if entries else [])]
    return Result(data=[*rules, *entries], text="\n\n".join(texts))


def compare(sources: Sequence[str]) -> Result:
    """What two sources say differently. Raises BadInput for a source that nobody knows, or another number of them."""
    if len(sources) != 2:
        raise BadInput("--diff takes two sources", hint="for example: uenvtool explain --diff guide docs-2026")
    one, other = sources
    rows = difference(one, other)
    return Result(
        data=[{"name": name, one: first, other: second} for name, first, second in rows],
        tables=(Table(headings=("variable", one, other), rows=rows),),
        notes=("-: says nothing of it",),
    )


def explained(names: Sequence[str], everything: bool, system: str | None) -> list[dict[str, Any]]:
    """The variables of those names, or all, as data; system: only what can hold there.

    Raises BadInput for a name that no tuning file knows.
    """
    facts: Facts = {}
    if system:
        loaded = load_system(system)
        tuning = load_tuning(loaded.tuning, loaded.tree.position)
        facts = loaded.facts(next(iter(loaded.nodes)))
    else:
        tuning = load_all()
    known = _by_name(tuning)
    problems = [
        unknown("variable", name, known, listed_by="uenvtool explain --all") for name in names if name not in known
    ]
    if problems:
        raise BadInput(problems)
    if not names and not everything:
        raise BadInput("name a variable, or take --all", hint="for example: uenvtool explain NCCL_NET")
    found = []
    for name in sorted(known) if everything else names:
        settings = [setting for variable in known[name] for setting, _ in applicable(variable.settings, facts)]
        settings += [
            each for workaround in tuning.workarounds.values() for each in workaround.settings if each.name == name
        ]
        found.append(_data(name, known[name], settings))
    return found


def difference(one: str, other: str) -> list[tuple[str, str, str]]:
    """The variables of which two sources say different things, or only one says anything."""
    sources = load_sources()
    problems = [unknown("source", name, sources) for name in (one, other) if name not in sources]
    if problems:
        raise BadInput(problems)
    rows = []
    for name, variables in sorted(_by_name(load_all()).items()):
        says = _says(variables)
        if (one in says or other in says) and says.get(one, "") != says.get(other, ""):
            rows.append((name, _said(says, one), _said(says, other)))
    return rows


def as_text(entries: Sequence[dict[str, Any]]) -> str:
    """What `explain` found, to be read."""
    return "\n\n".join("\n".join(_lines(entry)) for entry in entries)


def _lines(entry: dict[str, Any]) -> list[str]:
    lines = [f"{entry['name']}  ({', '.join(entry['files'])})"]
    for setting in entry["settings"]:
        shown = setting["value"] or (f"from {setting['computed']}" if setting["computed"] else setting["policy"])
        lines.append(f"  {shown}")
        lines.append(f"    policy:  {POLICIES[setting['policy']]}")
        lines.append(f"    when:    {setting['when'] or 'always'}")
        lines.append(f"    why:     {setting['reason']}")
        lines.append(f"    source:  {setting['source']}: {setting['title']}, {setting['since']}")
        if setting["conflicts"]:
            lines.append(f"    not beside: {', '.join(setting['conflicts'])}")
        if setting["needs"]:
            lines.append(f"    needs:   {setting['needs']}")
    lines.append("  who says what:")
    lines += [f"    {source} ({since}): {value}" for source, since, value in entry["says"]]
    return lines


def _by_name(tuning: Tuning) -> dict[str, list[TunedVariable]]:
    found: dict[str, list[TunedVariable]] = {}
    for variable in tuning.variables:
        found.setdefault(variable.name, []).append(variable)
    return found


def _says(variables: Sequence[TunedVariable]) -> dict[str, Value]:
    """What each source says of a variable that several files may describe."""
    return {source: value for variable in variables for source, value in variable.says.items()}


def _data(name: str, variables: Sequence[TunedVariable], settings: Sequence[Setting]) -> dict[str, Any]:
    says = _says(variables)
    sources = load_sources()
    return {
        "name": name,
        "files": [variable.file for variable in variables],
        "type": variables[0].kind,
        "settings": [_setting(setting) for setting in settings],
        "says": [[source, sources[source].date, _said(says, source)] for source in sources if source in says],
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "value": setting.value,
        "computed": setting.computed or None,
        "policy": setting.policy,
        "when": f"--workaround {setting.workaround}" if setting.workaround else setting.when.text,
        "reason": setting.reason,
        "source": setting.source.name,
        "title": setting.source.title,
        "since": setting.source.date,
        "conflicts": list(setting.conflicts),
        "needs": setting.needs.hint if setting.needs else None,
    }


def _said(says: dict[str, Value], source: str) -> str:
    if source not in says:
        return "-"
    value = says[source]
    return "unset" if value is None else value

"""Descriptions of variables, rules, findings and sources. `--json` prints their fields, and `text` is for readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from uenvtool.core.words import grouped
from uenvtool.knowledge.finding import KnownFinding
from uenvtool.knowledge.rule import Rule
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.sources import Source, load_sources
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
)

POLICIES = {
    DEFAULT: "set if it is unset",
    AT_MOST: "set if it is unset or a larger number",
    PREPEND: "prepended to the existing value",
    REQUIRED: "set, and replaces any other value",
    UNSET: "always removed",
    EXPECTED: "not set by uenvtool, which prints a message if it is unset",
}
COMPUTED = {
    "cores": "the number of cores per process",
    "view_root": "the view's directory",
    "roce_gid_index": "the index found in /sys",
    "roce_hca": "the common prefix of the devices' names",
    "runai_gpus": "RUNAI_NUM_OF_GPUS",
    "temporary": "a directory in /tmp for the user and the job",
}
"""Descriptions of the values that scripts compute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedSetting:
    """The description of a setting. shown: its value as text. how: the effect of its policy. cited: its full source."""

    value: str | None
    shown: str
    computed: str | None
    policy: str
    how: str
    when: str
    reason: str
    cost: str
    source: str
    cited: str
    since: str
    url: str
    conflicts: str
    set: str
    needs: str

    def lines(self) -> Iterator[str]:
        """Yield the description as lines of text."""
        parts = {
            "how": self.how,
            "when": self.when,
            "why": self.reason,
            "cost": self.cost,
            "source": self.cited,
            "avoid": self.conflicts,
            "set": self.set,
            "needs": self.needs,
        }
        yield f"  {self.shown}"
        yield from (f"    {word + ':':8} {part}" for word, part in parts.items() if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedGuard:
    """The description of a danger that variables can prevent.

    ways: the settings that prevent it, each with its source. here: whether it is prevented in a place.
    """

    name: str
    danger: str
    reason: str
    when: str
    ways: tuple[tuple[str, str], ...]
    source: str
    here: str

    def lines(self) -> Iterator[str]:
        """Yield the description as lines of text."""
        yield from (f"  {self.danger}: {self.reason}", f"    {'when:':8} {self.when}")
        yield from (f"    {'any of:':8} {way} ({source})" for way, source in self.ways)
        if self.here:
            yield f"    {'here:':8} {self.here}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedVariable:
    """The description of a variable.

    here: its value in the requested place, as a sentence, or None. says: the source, date, value and URL of each source
    that has a value. remarks: the source, date and text of each remark.
    """

    name: str
    files: tuple[str, ...]
    page: str | None
    type: str
    about: str
    here: str | None
    settings: tuple[ExplainedSetting, ...]
    says: tuple[tuple[str, str, str, str], ...]
    remarks: tuple[tuple[str, str, str], ...]
    guards: tuple[ExplainedGuard, ...]

    @property
    def parts(self) -> dict[str, Any]:
        """Return the fields of the description by name."""
        return asdict(self)

    @property
    def text(self) -> str:
        """Return the description as text."""
        lines = [f"{self.name}  ({', '.join(self.files)})"]
        lines += [f"  {line}" for line in (self.page, self.about, self.here) if line]
        lines += [line for setting in self.settings for line in setting.lines()]
        lines += self._values_by_source()
        lines += [f"    {source} ({since}): {words}" for source, since, words in self.remarks]
        lines += [line for guard in self.guards for line in guard.lines()]
        return "\n".join(lines)

    def _values_by_source(self) -> Iterator[str]:
        sources_by_value = grouped((value, f"{source} ({since})") for source, since, value, _ in self.says)
        adopted_by: dict[str | None, list[str]] = {value: [] for value in sources_by_value}
        for setting in self.settings:
            value = "unset" if setting.policy == UNSET else setting.value
            if value in adopted_by and setting.source not in adopted_by[value]:
                adopted_by[value].append(setting.source)
        rows = [("value", "adopted from", "sources")]
        rows += [
            (value, ", ".join(adopted_by[value]) or "-", ", ".join(sources))
            for value, sources in sources_by_value.items()
        ]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        yield "  values by source, which contradict each other:" if len(sources_by_value) > 1 else "  values by source:"
        yield from (f"    {value:{first}}  {adopters:{second}}  {sources}" for value, adopters, sources in rows)


@dataclass(frozen=True, slots=True)
class ExplainedEntry:
    """The description of a rule of `check`, a finding of `doctor` or a source: its fields by name, and its text."""

    parts: Mapping[str, Any]
    text: str


def explained_variable(
    name: str, variables: Sequence[TunedVariable], tuning: Tuning, place: Settings | None, value: str | None
) -> ExplainedVariable:
    """Return the description of a variable.

    variables: the variable in each file that describes it. place: the requested place, or None. value: a sentence with
    the variable's value in that place.
    """
    says = {source: value for variable in variables for source, value in variable.says.items()}
    sources = {**load_sources(), **{setting.source.name: setting.source for setting in tuning.settings}}
    settings = [setting for setting in tuning.settings if setting.name == name]
    settings += [
        setting for workaround in tuning.workarounds.values() for setting in workaround.settings if setting.name == name
    ]
    return ExplainedVariable(
        name=name,
        files=tuple(variable.file for variable in variables),
        page=next((variable.page for variable in variables if variable.page), None),
        type=variables[0].type,
        about=next((variable.about for variable in variables if variable.about), ""),
        here=value,
        settings=tuple(_setting(setting, tuning) for setting in settings),
        says=tuple(
            (source, known.date, "unset" if (value := says[source]) is None else value, known.url)
            for source, known in sources.items()
            if source in says
        ),
        remarks=tuple(
            (source, known.date, variable.remarks[source])
            for variable in variables
            for source, known in sources.items()
            if source in variable.remarks
        ),
        guards=tuple(_guard(guard, place) for guard in tuning.guards if name in guard.variables),
    )


def _setting(setting: Setting, tuning: Tuning) -> ExplainedSetting:
    workaround = tuning.workarounds.get(setting.workaround)
    asked_for = f"--workaround {workaround.name}: {workaround.symptom}" if workaround else ""
    return ExplainedSetting(
        value=setting.value,
        shown=value_text(setting),
        computed=setting.from_ or None,
        policy=setting.policy,
        how=POLICIES[setting.policy],
        when=asked_for or setting.when.text or "always",
        reason="" if workaround else setting.reason,
        cost=workaround.cost if workaround else "",
        source=setting.source.name,
        cited=f"{setting.source.name}: {setting.source} {setting.source.url}".rstrip(),
        since=setting.source.date,
        url=setting.source.url,
        conflicts=f"do not set it together with {', '.join(setting.conflicts)}" if setting.conflicts else "",
        set=f"set only together with all variables of {setting.together}" if setting.together else "",
        needs=setting.needs.hint if setting.needs else "",
    )


def _guard(guard: Guard, place: Settings | None) -> ExplainedGuard:
    effect = ""
    if place is not None and guard.name in {present.name for present in place.guards}:
        effect = f"{place_of(place)}: {kept_away(guard, place)}"
    elif place is not None:
        effect = f"on {place.system.name}: not in danger"
    return ExplainedGuard(
        name=guard.name,
        danger=guard.danger,
        reason=guard.reason,
        when=guard.when.text,
        ways=tuple((str(way), way.source.name) for way in guard.one_of),
        source=guard.source.name,
        here=effect,
    )


def place_of(place: Settings) -> str:
    """Return the description of a place."""
    return f"on {place.system.name}, in {place.runtimes[0].name}"


def kept_away(guard: Guard, place: Settings) -> str:
    """Return a phrase that tells whether the settings of a place prevent a danger."""
    way = guard.way(
        {
            setting.name: setting.value
            for setting in (*place.held(), *place.by_hook)
            if setting.is_fixed and setting.value
        }
    )
    return f"prevented by {way}" if way else "not prevented"


def explained_rule(rule: Rule) -> ExplainedEntry:
    """Return the description of a rule."""
    parts = {name: getattr(rule, name) for name in ("severity", "what", "cost", "fix", "source")}
    parts |= {"file": str(rule.position), "page": rule.page or None}
    lines = [f"  {name + ':':<10} {part}" for name, part in parts.items() if part]
    text = "\n".join([f"{rule.id}  (uenvtool check)", *lines])
    return ExplainedEntry({"rule": rule.id, **parts}, text)


def explained_finding(finding: KnownFinding) -> ExplainedEntry:
    """Return the description of a finding."""
    remedy = finding.workaround
    condition = f", if {remedy.when}" if remedy and remedy.when.terms else ""
    messages = finding.messages or [line.text.strip() for line in finding.log]
    parts = {
        **{name: getattr(finding, name) for name in ("severity", "what", "why", "fix")},
        "paste": finding.command,
        "workaround": f"{remedy.name}{condition}" if remedy else "",
        "lines": [line for text in messages for line in text.splitlines()],
        "source": finding.source,
        "file": str(finding.position),
        "page": finding.page or None,
    }
    shown = {**parts, "paste": f"`{finding.command}`" if finding.command else "", "lines": ""}
    lines = [f"  {name + ':':<11} {part}" for name, part in shown.items() if part]
    lines += [f"  {'in a log:':<11} {line}" for line in parts["lines"]]
    text = "\n".join([f"{finding.id}  (uenvtool doctor)", *lines])
    return ExplainedEntry({"finding": finding.id, **parts}, text)


def explained_source(source: Source, tuning: Tuning) -> ExplainedEntry:
    """Return the description of a source, with the variables that have a value from it."""
    variables = list(dict.fromkeys(setting.name for setting in tuning.settings if setting.source.name == source.name))
    parts = {"title": source.title, "date": source.date, "url": source.url, "site": source.site}
    shown = {**parts, "values": ", ".join(variables)}
    lines = [f"  {name + ':':<8} {part}" for name, part in shown.items() if part]
    text = "\n".join([f"{source.name}  (a source of values)", *lines])
    return ExplainedEntry({"source": source.name, **parts, "variables": variables}, text)


def value_text(setting: Setting) -> str:
    """Return the value of a setting as text, or its effect if it has no fixed value."""
    if setting.from_:
        return COMPUTED[setting.from_]
    if setting.policy in (UNSET, EXPECTED):
        return "removed" if setting.policy == UNSET else "not set by uenvtool"
    return setting.value or ""

"""What is known of a variable, a rule or a finding, as values: `--json` prints their fields, `text` is to be read."""

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
    AT_MOST: "set if it is unset, and over a larger number",
    PREPEND: "put in front of what is there",
    REQUIRED: "set, also over another value",
    UNSET: "removed",
    EXPECTED: "set by somebody else; a message if it is missing",
}
COMPUTED = {
    "cores": "the cores of a process",
    "view_root": "the view's folder",
    "roce_gid_index": "the index found under /sys",
    "roce_hca": "the start of the devices' names",
    "runai_gpus": "RUNAI_NUM_OF_GPUS",
    "temporary": "a folder of the user's and the job's below /tmp",
}
"""What the values are that scripts compute."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedSetting:
    """A setting. shown: what is set. how: what its policy does. cited: its source in full."""

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
        """Yield what is to be read."""
        parts = {
            "how": self.how,
            "when": self.when,
            "why": self.reason,
            "cost": self.cost,
            "source": self.cited,
            "apart": self.conflicts,
            "set": self.set,
            "needs": self.needs,
        }
        yield f"  {self.shown}"
        yield from (f"    {word + ':':8} {part}" for word, part in parts.items() if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedGuard:
    """A danger that a variable can keep away. ways: each with its source. here: whether it is kept away in a place."""

    name: str
    danger: str
    reason: str
    when: str
    ways: tuple[tuple[str, str], ...]
    source: str
    here: str

    def lines(self) -> Iterator[str]:
        """Yield what is to be read."""
        yield from (f"  {self.danger}: {self.reason}", f"    {'when:':8} {self.when}")
        yield from (f"    {'enough:':8} {way} ({source})" for way, source in self.ways)
        if self.here:
            yield f"    {'here:':8} {self.here}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainedVariable:
    """A variable. here: what it is in a place, if one is asked for. says: source, date, value and address.

    remarks: source, date and words.
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
        """What is known of it, by name."""
        return asdict(self)

    @property
    def text(self) -> str:
        """It as it is read."""
        lines = [f"{self.name}  ({', '.join(self.files)})"]
        lines += [f"  {line}" for line in (self.page, self.about, self.here) if line]
        lines += [line for setting in self.settings for line in setting.lines()]
        lines += self._who_says_what()
        lines += [f"    {source} ({since}): {words}" for source, since, words in self.remarks]
        lines += [line for guard in self.guards for line in guard.lines()]
        return "\n".join(lines)

    def _who_says_what(self) -> Iterator[str]:
        said_by = grouped((value, f"{source} ({since})") for source, since, value, _ in self.says)
        followed: dict[str | None, list[str]] = {value: [] for value in said_by}
        for setting in self.settings:
            value = "unset" if setting.policy == UNSET else setting.value
            if value in followed and setting.source not in followed[value]:
                followed[value].append(setting.source)
        rows = [("value", "followed", "said by")]
        rows += [(value, ", ".join(followed[value]) or "-", ", ".join(sources)) for value, sources in said_by.items()]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        yield "  who says what; they contradict each other:" if len(said_by) > 1 else "  who says what:"
        yield from (f"    {value:{first}}  {by:{second}}  {sources}" for value, by, sources in rows)


@dataclass(frozen=True, slots=True)
class ExplainedEntry:
    """A rule of `check`, a finding of `doctor` or a source: what is known of it, by name; and as it is read."""

    parts: Mapping[str, Any]
    text: str


def explained_variable(
    name: str, variables: Sequence[TunedVariable], tuning: Tuning, here: Settings | None, value: str | None
) -> ExplainedVariable:
    """Return what is known of a variable.

    variables: it, as each file describes it. here: the place that is asked for. value: what it is there, in words.
    """
    says = {source: value for variable in variables for source, value in variable.says.items()}
    sources = {**load_sources(), **{setting.source.name: setting.source for setting in tuning.settings}}
    settings = [setting for setting in tuning.settings if setting.name == name]
    settings += [setting for found in tuning.workarounds.values() for setting in found.settings if setting.name == name]
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
        guards=tuple(_guard(guard, here) for guard in tuning.guards if name in guard.variables),
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
        conflicts=f"must not be set beside {', '.join(setting.conflicts)}" if setting.conflicts else "",
        set=f"all of the set {setting.together}, or nothing of it" if setting.together else "",
        needs=setting.needs.hint if setting.needs else "",
    )


def _guard(guard: Guard, here: Settings | None) -> ExplainedGuard:
    taken = ""
    if here is not None and guard.name in {found.name for found in here.guards}:
        taken = f"{place_of(here)}: {kept_away(guard, here)}"
    elif here is not None:
        taken = f"on {here.system.name}: not in danger"
    return ExplainedGuard(
        name=guard.name,
        danger=guard.danger,
        reason=guard.reason,
        when=guard.when.text,
        ways=tuple((str(way), way.source.name) for way in guard.one_of),
        source=guard.source.name,
        here=taken,
    )


def place_of(here: Settings) -> str:
    """Return a place in words."""
    return f"on {here.system.name}, in {here.runtimes[0].name}"


def kept_away(guard: Guard, here: Settings) -> str:
    """Return whether what is set in a place keeps a danger away, in words."""
    way = guard.way(
        {found.name: found.value for found in (*here.held(), *here.by_hook) if found.is_fixed and found.value}
    )
    return f"kept away by {way}" if way else "not kept away"


def explained_rule(rule: Rule) -> ExplainedEntry:
    """Return what is known of a rule."""
    parts = {name: getattr(rule, name) for name in ("severity", "what", "cost", "fix", "source")}
    parts |= {"file": str(rule.position), "page": rule.page or None}
    lines = [f"  {name + ':':<10} {part}" for name, part in parts.items() if part]
    text = "\n".join([f"{rule.id}  (uenvtool check)", *lines])
    return ExplainedEntry({"rule": rule.id, **parts}, text)


def explained_finding(finding: KnownFinding) -> ExplainedEntry:
    """Return what is known of a finding."""
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
    """Return what is known of a source, and the variables that take a value from it."""
    followed = list(dict.fromkeys(found.name for found in tuning.settings if found.source.name == source.name))
    parts = {"title": source.title, "date": source.date, "url": source.url, "site": source.site}
    shown = {**parts, "values": ", ".join(followed)}
    lines = [f"  {name + ':':<8} {part}" for name, part in shown.items() if part]
    text = "\n".join([f"{source.name}  (a source of values)", *lines])
    return ExplainedEntry({"source": source.name, **parts, "variables": followed}, text)


def value_text(setting: Setting) -> str:
    """Return what a variable is set to, or what happens to it."""
    if setting.from_:
        return COMPUTED[setting.from_]
    if setting.policy in (UNSET, EXPECTED):
        return "removed" if setting.policy == UNSET else "left to somebody else"
    return setting.value or ""

"""Finders that compare the variables of a batch script or EDF with the tuning.

They need Python because names, values and reasons come from the tuning of the system and runtime of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from uenvtool.check.launch import job_shape, launches
from uenvtool.check.parts import OUTER, CheckedFile, Hit, Part, at
from uenvtool.check.values import Values
from uenvtool.core.words import grouped
from uenvtool.knowledge.settings import ConditionalSetting, Settings
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import AT_MOST, DEFAULT, REQUIRED, UNSET, applicable, holding

Knowledge = Callable[[], "Settings | None"]
"""A function that returns the settings for the checked file, or None if the file does not show its runtime.

Every search calls it.
"""
Search = Callable[[CheckedFile, Knowledge], Iterator[Hit]]
"""A function that yields the hits of one rule."""
LEVELS = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "5": "SYS"}
"""The names of NCCL's old numeric distance levels (nccl, src/graph/paths.cc, levelsOldToNew).

They are not in the tuning files, because two variables use them.
"""


def other_value(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the variables whose value differs from the recommended values."""
    tuned = knowledge()
    variables = {variable.name: variable for variable in tuned.tuning.variables} if tuned else {}
    for part, possible in _tuned_parts(source, knowledge):
        settings = [candidate.setting for candidate in possible]
        values = [setting for setting in settings if setting.policy in (DEFAULT, AT_MOST, REQUIRED)]
        variable = variables.get(_plain(part.name))
        choices, says = (variable.choices, variable.says.values()) if variable else ((), ())
        text = LEVELS.get(part.text, part.text) if "PHB" in choices else part.text
        is_known = any(setting.value is None or setting.accepts(text) for setting in values)
        is_of_a_site = text in map(str, says) and all(setting.is_choice for setting in values)
        if values and not is_known and not is_of_a_site:
            recommended = " or ".join(dict.fromkeys(str(setting.value) for setting in values))
            yield at(
                part,
                f"{part.name} is {part.text}, should be {recommended}{_where(tuned)}: {values[0].reason}",
                f"{part.name}={values[0].value}",
            )
    limits = _by_name(tuned) if tuned else {}
    for part in _given_parts(source, tuned):
        for limit in (candidate.setting for candidate in limits.get(part.name, ())):
            if limit.policy == AT_MOST and not limit.accepts(part.text):
                yield at(part, f"the view sets {part.name}={part.text}, over the limit {limit.value}: {limit.reason}")


def _where(tuned: Settings | None) -> str:
    return f" on {tuned.system.name}" if tuned and len(tuned.systems) == 1 else ""


def must_be_unset(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the variables that must not be set on the system."""
    for part, possible in _tuned_parts(source, knowledge):
        for candidate in possible:
            if candidate.setting.policy == UNSET and part.text and not candidate.guard:
                yield at(part, f"{part.name}: {candidate.setting.reason}")


def conflicting(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the variables that conflict with another variable that is set."""
    names = {_plain(part.name) for part in _set_parts(source)}
    for part, possible in _tuned_parts(source, knowledge):
        for candidate in possible:
            if candidate.setting.policy != UNSET:
                for other in names.intersection(candidate.setting.conflicts):
                    yield at(part, f"{part.name} and {other}")


def unguarded(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the dangers against which no setting of the file guards, on systems where they can occur."""
    tuned = knowledge()
    if tuned is None:
        return
    for guard, left in applicable(tuned.tuning.guards, tuned.known):
        if all(guard.when.holds({**node, **tuned.known}) is False for node in tuned.nodes):
            continue
        unknown = {term.fact for term in left} - guard.unseen
        if unknown - {"uarch"} and not (guard.signs and guard.signs.search(source.text)):
            continue
        parts = [part for part in _set_parts(source) if _plain(part.name) in guard.variables]
        if not parts and not source.kinds & {"uenv", "edf", "apptainer"}:
            continue  # the file does not show that it uses NCCL
        values = {**source.given, **_given(source, tuned), **{_plain(part.name): _default(part.text) for part in parts}}
        if guard.way(values) is None and not any("$" in values.get(name, "") for name in guard.variables):
            where = "".join(f" where {term}" for term in left if term.fact == "uarch")
            yield at(parts[0] if parts else _runtime_part(source), f"{guard.danger}{where}; {guard.choice}")


def _default(value: str) -> str:
    match = re.fullmatch(r"\$\{\w+:?-([^$}]*)\}", value)
    return match[1] if match else value


def _runtime_part(source: CheckedFile) -> Part:
    """Return the part that names a file's image, EDF or container command, or else the start of the file."""
    kinds = {("directive", "uenv"), ("entry", "image"), ("command", "apptainer"), ("command", "singularity")}
    steps = (part for part in source.of("command", "srun", "| srun") if "--environment" in part.text)
    named = (*(part for part in source.parts if (part.kind, part.name) in kinds), *steps)
    return next(iter(named), Part(kind="line", name="", text="", offset=0, end=1))


def needed(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the values that need a job option or variable that is missing, for any version."""
    options = [part.text for part in source.parts if part.kind == "directive" or part.name in ("srun", "| srun")]
    variables = {part.name: part.text for part in source.of("variable")}
    tuned = knowledge()
    needs = tuned.tuning.needs if tuned else {}
    for part in (*_set_parts(source), *_given_parts(source, tuned)):
        need = needs.get((_plain(part.name), part.text))
        given = [*options, variables.get(need.variable, "")] if need else []
        if need and not any(need.contains in text for text in given):
            yield at(part, f"{part.name}={part.text} needs {need.hint}")


def _given(source: CheckedFile, tuned: Settings) -> dict[str, str]:
    """Return the variables that the view of a published uenv, the EDF's image, or the EDF's hook set."""
    views = {name: known.view_of for name, known in load_sources().items() if known.view_of}
    view = next((name for name, label in views.items() if source.uenv.startswith(label)), "")
    says = {variable.name: variable.says[view] for variable in tuned.tuning.variables if view in variable.says}
    return {**{name: value for name, value in says.items() if value is not None}, **_set_by_others(tuned)}


def _set_by_others(tuned: Settings) -> dict[str, str]:
    tuning = tuned.tuning
    held = (setting for setting in holding(tuning.settings, tuned.known) if tuning.set_by(setting))
    return {setting.name: setting.value for setting in held if setting.value is not None}


def _given_parts(source: CheckedFile, tuned: Settings | None) -> Iterator[Part]:
    """Yield the variables of a view, hook or image that the file does not set, at the part that names the image."""
    set_names = {_plain(part.name) for part in _set_parts(source)}
    runtime_part = _runtime_part(source)
    for name, value in _given(source, tuned).items() if tuned else ():
        if name not in set_names:
            yield Part(kind="variable", name=name, text=value, offset=runtime_part.offset, end=runtime_part.end)


def missing(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the unconditional network settings and required settings that the file does not make."""
    tuned = knowledge()
    values = Values(source)
    shape = job_shape(source, values)
    if tuned is None or shape.nodes == shape.gpus == 1:  # one GPU does not use the network
        return
    named = next(source.of("directive", "uenv"), None)
    if any(not runtime.in_script and runtime.name in tuned.system.runtimes for runtime in tuned.runtimes):
        trained = next(launches(source, values, shape), None)  # by the system's Python, as in jobs written by uenvtool
        named = (trained.step or trained.part) if trained else None
    if named is None:
        return
    names = {_plain(part.name) for part in _set_parts(source)}.union(source.given, _given(source, tuned))
    has_one_node = tuned.known.get("nodes") == "1"
    lacking = [
        setting.name
        for setting in (candidate.setting for candidate in tuned.settings if not candidate.guard)
        if (setting.policy == REQUIRED or (not has_one_node and "fabric" in setting.when.text))
        and setting.is_fixed
        and setting.name not in names
    ]  # fmt: skip
    if lacking:
        name = tuned.system.name if len(tuned.systems) < 2 else "SYSTEM"
        yield at(named, ", ".join(lacking), f"source activate/{name}.sh, written by `uenvtool activate --write`")


def _tuned_parts(source: CheckedFile, knowledge: Knowledge) -> Iterator[tuple[Part, list[ConditionalSetting]]]:
    parts = [part for part in _set_parts(source) if "$" not in part.text and OUTER not in part.text]
    tuned = knowledge() if parts else None
    if tuned is None or len(tuned.runtimes) != 1:
        return
    by_name = _by_name(tuned)
    for part in parts:
        if _plain(part.name) in by_name:
            yield part, by_name[_plain(part.name)]


def _by_name(tuned: Settings) -> Mapping[str, list[ConditionalSetting]]:
    return grouped((possible.setting.name, possible) for possible in tuned.settings)


def _set_parts(source: CheckedFile) -> Iterator[Part]:
    for part in source.parts:
        if part.kind == "variable" or (part.kind == "entry" and part.name.startswith("env.")):
            yield part


def _plain(name: str) -> str:
    """Return the variable name that the program sees, without an EDF's table name or Apptainer's prefixes."""
    return name.removeprefix("env.").removeprefix("APPTAINERENV_").removeprefix("SINGULARITYENV_")

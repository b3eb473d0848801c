"""Finders that compare the variables of a batch script or EDF with the tuning of its system and runtime.

They need Python because names, values and reasons come from the tuning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from uenvtool.check.context import Context
from uenvtool.check.parts import OUTER, CheckedFile, Hit, Part, at
from uenvtool.core.words import grouped
from uenvtool.knowledge.settings import ConditionalSetting, Settings
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import AT_MOST, DEFAULT, REQUIRED, UNSET, applicable, holding

_LEVELS = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "5": "SYS"}
"""NCCL's names for the old distance numbers, which two variables accept (nccl, src/graph/paths.cc, levelsOldToNew)."""


def other_value(context: Context) -> Iterator[Hit]:
    """Yield the variables whose value differs from the recommended values."""
    tuned = context.settings
    if tuned is None:
        return
    variables = {variable.name: variable for variable in tuned.tuning.variables}
    where = f" on {tuned.system.name}" if len(tuned.systems) == 1 else ""
    for part, possible in _tuned_parts(context):
        settings = [candidate.setting for candidate in possible]
        values = [setting for setting in settings if setting.policy in (DEFAULT, AT_MOST, REQUIRED)]
        variable = variables.get(_plain(part.name))
        choices, says = (variable.choices, variable.says.values()) if variable else ((), ())
        text = _LEVELS.get(part.text, part.text) if "PHB" in choices else part.text
        is_known = any(setting.value is None or setting.accepts(text) for setting in values)
        is_of_a_site = text in map(str, says) and all(setting.policy == DEFAULT for setting in values)
        if values and not is_known and not is_of_a_site:
            recommended = " or ".join(dict.fromkeys(str(setting.value) for setting in values))
            yield at(
                part,
                f"{part.name} is {part.text}, should be {recommended}{where}: {values[0].reason}",
                f"{part.name}={values[0].value}",
            )
    limits = _by_name(tuned)
    for part in _given_parts(context):
        for limit in (candidate.setting for candidate in limits.get(part.name, ())):
            if limit.policy == AT_MOST and not limit.accepts(part.text):
                yield at(part, f"the view sets {part.name}={part.text}, over the limit {limit.value}: {limit.reason}")


def must_be_unset(context: Context) -> Iterator[Hit]:
    """Yield the variables that must not be set on the system."""
    for part, possible in _tuned_parts(context):
        for candidate in possible:
            if candidate.setting.policy == UNSET and part.text and not candidate.guard:
                yield at(part, f"{part.name}: {candidate.setting.reason}")


def conflicting(context: Context) -> Iterator[Hit]:
    """Yield the variables that conflict with another variable that is set."""
    names = {_plain(part.name) for part in _set_parts(context.source)}
    for part, possible in _tuned_parts(context):
        for candidate in possible:
            if candidate.setting.policy != UNSET:
                for other in names.intersection(candidate.setting.conflicts):
                    yield at(part, f"{part.name} and {other}")


def unguarded(context: Context) -> Iterator[Hit]:
    """Yield the dangers that can occur on the system and that no setting of the file prevents."""
    source, tuned = context.source, context.settings
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


def needed(context: Context) -> Iterator[Hit]:
    """Yield the values that need a missing job option or variable, regardless of the software versions."""
    source, tuned = context.source, context.settings
    if tuned is None:
        return
    options = [part.text for part in source.parts if part.kind == "directive" or part.name in ("srun", "| srun")]
    variables = {part.name: part.text for part in source.of("variable")}
    for part in (*_set_parts(source), *_given_parts(context)):
        need = tuned.tuning.needs.get((_plain(part.name), part.text))
        given = [*options, variables.get(need.variable, "")] if need else []
        if need and not any(need.contains in text for text in given):
            yield at(part, f"{part.name}={part.text} needs {need.hint}")


def _given(source: CheckedFile, tuned: Settings) -> dict[str, str]:
    """Return the variables that the view of a published uenv, the EDF's image, or the EDF's hook set."""
    views = {name: known.view_of for name, known in load_sources().items() if known.view_of}
    view = next((name for name, label in views.items() if source.uenv.startswith(label)), "")
    tuning = tuned.tuning
    given = {variable.name: variable.says[view] for variable in tuning.variables if view in variable.says}
    held = holding(tuning.settings, tuned.known)
    given |= {setting.name: setting.value for setting in held if tuning.set_by(setting) and setting.value is not None}
    return {name: value for name, value in given.items() if value is not None}


def _given_parts(context: Context) -> Iterator[Part]:
    """Yield the variables of a view, hook or image that the file does not set, at the part that names the image."""
    source = context.source
    set_names = {_plain(part.name) for part in _set_parts(source)}
    for name, value in _given(source, context.settings).items() if context.settings else ():
        if name not in set_names:
            yield replace(_runtime_part(source), kind="variable", name=name, text=value)


def missing(context: Context) -> Iterator[Hit]:
    """Yield the unconditional network settings and the required settings that are missing from the file."""
    source, tuned, shape = context.source, context.settings, context.shape
    if tuned is None or shape.nodes == shape.gpus == 1:  # one GPU does not use the network
        return
    named = next(source.of("directive", "uenv"), None)
    if any(not runtime.in_script and runtime.name in tuned.system.runtimes for runtime in tuned.runtimes):
        # the system's Python runs the training, as in jobs written by uenvtool
        named = next((launch.step or launch.part for launch in context.launches), None)
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


def _tuned_parts(context: Context) -> Iterator[tuple[Part, list[ConditionalSetting]]]:
    parts = [part for part in _set_parts(context.source) if "$" not in part.text and OUTER not in part.text]
    tuned = context.settings if parts else None
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

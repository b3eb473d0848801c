"""What the tuning files say of the variables that a batch script or EDF sets.

These searches are no rows: names, values and reasons come from the tuning of the place that the file is for.
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
"""Gives the settings for the file that is checked; None if nothing tells its runtime. It is called by every search."""
Search = Callable[[CheckedFile, Knowledge], Iterator[Hit]]
"""Gives what is wrong."""
LEVELS = {"0": "LOC", "1": "PIX", "2": "PXB", "3": "PHB", "4": "SYS", "5": "SYS"}
"""What the old numbers of NCCL's levels of distance stand for (nccl, src/graph/paths.cc, levelsOldToNew).

They are no key of the tuning files: two variables have them.
"""


def other_value(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield variables whose value is none that holds here."""
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
            wanted = " or ".join(dict.fromkeys(str(setting.value) for setting in values))
            yield at(
                part,
                f"{part.name} is {part.text}, should be {wanted}{_where(tuned)}: {values[0].reason}",
                f"{part.name}={values[0].value}",
            )
    limits = _by_name(tuned) if tuned else {}
    for part in _given_parts(source, tuned):
        for limit in (candidate.setting for candidate in limits.get(part.name, ())):
            if limit.policy == AT_MOST and not limit.accepts(part.text):
                yield at(part, f"{part.name}={part.text} of the view is over {limit.value}: {limit.reason}")


def _where(tuned: Settings | None) -> str:
    return f" on {tuned.system.name}" if tuned and len(tuned.systems) == 1 else ""


def must_be_unset(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield variables that must not be set here."""
    for part, possible in _tuned_parts(source, knowledge):
        for candidate in possible:
            if candidate.setting.policy == UNSET and part.text and not candidate.guard:
                yield at(part, f"{part.name}: {candidate.setting.reason}")


def conflicting(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield variables beside one that they must not be set beside."""
    names = {_plain(part.name) for part in _set_parts(source)}
    for part, possible in _tuned_parts(source, knowledge):
        for candidate in possible:
            if candidate.setting.policy != UNSET:
                for other in names.intersection(candidate.setting.conflicts):
                    yield at(part, f"{part.name} beside {other}")


def unguarded(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield dangers that none of the ways out keeps away, where the file is, or may be, for such a place."""
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
            continue  # nothing in the file is about NCCL
        values = {**source.given, **_given(source, tuned), **{_plain(part.name): _default(part.text) for part in parts}}
        if guard.way(values) is None and not any("$" in values.get(name, "") for name in guard.variables):
            where = "".join(f" where {term}" for term in left if term.fact == "uarch")
            yield at(parts[0] if parts else _names_runtime(source), f"{guard.danger}{where}; {guard.choice}")


def _default(value: str) -> str:
    """Return the value that `${NAME:-VALUE}` has where the variable is not set before."""
    found = re.fullmatch(r"\$\{\w+:?-([^$}]*)\}", value)
    return found[1] if found else value


def _names_runtime(source: CheckedFile) -> Part:
    """Return where a file names what it runs in: its image, or the command of its container."""
    kinds = {("directive", "uenv"), ("entry", "image"), ("command", "apptainer"), ("command", "singularity")}
    steps = (part for part in source.of("command", "srun", "| srun") if "--environment" in part.text)
    named = (*(part for part in source.parts if (part.kind, part.name) in kinds), *steps)
    return next(iter(named), Part(kind="line", name="", text="", offset=0, end=1))


def needed(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield values that need an option of the job that it lacks, whatever the version that they are for."""
    options = [part.text for part in source.parts if part.kind == "directive" or part.name in ("srun", "| srun")]
    variables = {part.name: part.text for part in source.of("variable")}
    tuned = knowledge()
    needs = tuned.tuning.needs if tuned else {}
    for part in (*_set_parts(source), *_given_parts(source, tuned)):
        need = needs.get((_plain(part.name), part.text))
        told = [*options, variables.get(need.variable, "")] if need else []
        if need and not any(need.contains in option for option in told):
            yield at(part, f"{part.name}={part.text} needs {need.hint}")


def _given(source: CheckedFile, tuned: Settings) -> dict[str, str]:
    """Return what others set for a file: the view of a published uenv, the image of an EDF, its hook."""
    views = {name: known.view_of for name, known in load_sources().items() if known.view_of}
    view = next((name for name, label in views.items() if source.uenv.startswith(label)), "")
    says = {variable.name: variable.says[view] for variable in tuned.tuning.variables if view in variable.says}
    return {**{name: value for name, value in says.items() if value is not None}, **_set_by_others(tuned)}


def _set_by_others(tuned: Settings) -> dict[str, str]:
    tuning = tuned.tuning
    held = (setting for setting in holding(tuning.settings, tuned.known) if tuning.set_by(setting))
    return {setting.name: setting.value for setting in held if setting.value is not None}


def _given_parts(source: CheckedFile, tuned: Settings | None) -> Iterator[Part]:
    """Yield what a view, a hook or an image sets and the file does not, as if it stood where the file names that."""
    own = {_plain(part.name) for part in _set_parts(source)}
    named = _names_runtime(source)
    for name, value in _given(source, tuned).items() if tuned else ():
        if name not in own:
            yield Part(kind="variable", name=name, text=value, offset=named.offset, end=named.end)


def missing(source: CheckedFile, knowledge: Knowledge) -> Iterator[Hit]:
    """Yield the settings that hold in any case and that nothing here makes: the network's, and those that must be."""
    tuned = knowledge()
    values = Values(source)
    shape = job_shape(source, values)
    if tuned is None or shape.nodes == shape.gpus == 1:  # nothing goes over a network
        return
    named = next(source.of("directive", "uenv"), None)
    if any(not runtime.in_script and runtime.name in tuned.system.runtimes for runtime in tuned.runtimes):
        trained = next(launches(source, values, shape), None)  # by a Python of the system's, as jobs of ours have
        named = (trained.step or trained.part) if trained else None
    if named is None:
        return
    names = {_plain(part.name) for part in _set_parts(source)}.union(source.given, _given(source, tuned))
    has_one_node = tuned.known.get("nodes") == "1"
    lacking = [
        setting.name
        for setting in (found.setting for found in tuned.settings if not found.guard)
        if (setting.policy == REQUIRED or (not has_one_node and "fabric" in setting.when.text))
        and setting.is_fixed
        and setting.name not in names
    ]  # fmt: skip
    if lacking:
        name = tuned.system.name if len(tuned.systems) < 2 else "SYSTEM"
        yield at(named, ", ".join(lacking), f"source activate/{name}.sh, which `uenvtool activate --write` writes")


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
    """Return the name that the program sees: an EDF's table and Apptainer's prefixes taken off."""
    return name.removeprefix("env.").removeprefix("APPTAINERENV_").removeprefix("SINGULARITYENV_")

"""What the tuning files say of the variables that a batch script or EDF sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from uenvtool.job.check.parts import OUTER, Part, Source
from uenvtool.knowledge.tuning import AT_MOST, DEFAULT, REQUIRED, UNSET, Setting
from uenvtool.settings import Settings

Knowledge = Callable[[], "Settings | None"]
"""Gives the settings for the file that is checked; None if nothing tells its runtime. It is called by every search."""


def other_value(source: Source, knowledge: Knowledge) -> Iterator[tuple[int, str]]:
    """Variables whose value is none that holds here."""
    for part, settings in _tuned_parts(source, knowledge):
        values = [setting for setting in settings if setting.policy in (DEFAULT, AT_MOST, REQUIRED)]
        known = {setting.value for setting in values}
        if values and None not in known and part.text not in known:
            wanted = " or ".join(f"{setting.value} ({setting.source.name}: {setting.reason})" for setting in values)
            yield part.offset, f"{part.name}={part.text}, here it is {wanted}"


def must_be_unset(source: Source, knowledge: Knowledge) -> Iterator[tuple[int, str]]:
    """Variables that must not be set here."""
    for part, settings in _tuned_parts(source, knowledge):
        for setting in settings:
            if setting.policy == UNSET and part.text:
                yield part.offset, f"{part.name}: {setting.reason}"


def conflicting(source: Source, knowledge: Knowledge) -> Iterator[tuple[int, str]]:
    """Variables beside one that they must not be set beside."""
    names = {_plain(part.name) for part in _set_parts(source)}
    for part, settings in _tuned_parts(source, knowledge):
        for setting in settings:
            if setting.policy != UNSET:
                for other in names.intersection(setting.conflicts):
                    yield part.offset, f"{part.name} beside {other}"


def needed(source: Source, knowledge: Knowledge) -> Iterator[tuple[int, str]]:
    """Values that need an option of the job that it lacks, whatever the version that they are for."""
    options = [part.text for part in source.parts if part.kind == "directive" or part.name == "srun"]
    tuned = knowledge()
    needs = {
        (setting.name, setting.value): setting.needs
        for setting in (tuned.tuning.settings if tuned else ())
        if setting.needs
    }
    for part in _set_parts(source):
        need = needs.get((_plain(part.name), part.text))
        if need and not any(need.contains in option for option in options):
            yield part.offset, f"{part.name}={part.text} needs {need.hint}"


def missing(source: Source, knowledge: Knowledge) -> Iterator[tuple[int, str]]:
    """The network's settings that hold in any case and that the script does not make, as one finding."""
    tuned = knowledge()
    at = next((part.offset for part in source.parts if part.kind == "directive" and part.name == "uenv"), None)
    if tuned is None or at is None:
        return
    names = {_plain(part.name) for part in _set_parts(source)} | source.given
    lacking = [
        setting.name
        for setting in (found.setting for found in tuned.possible if not found.guard)
        if "fabric" in setting.when.text and setting.is_fixed and setting.name not in names
    ]  # fmt: skip
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        yield at, f"{', '.join(lacking[:3])}{more}"


def _tuned_parts(source: Source, knowledge: Knowledge) -> Iterator[tuple[Part, list[Setting]]]:
    """The fixed values that a file sets, each with the settings that can hold for it."""
    parts = [part for part in _set_parts(source) if "$" not in part.text and OUTER not in part.text]
    tuned = knowledge() if parts else None
    if tuned is None:
        return
    by_name = _by_name(tuned)
    for part in parts:
        if _plain(part.name) in by_name:
            yield part, by_name[_plain(part.name)]


def _by_name(tuned: Settings) -> Mapping[str, list[Setting]]:
    found: dict[str, list[Setting]] = {}
    for possible in tuned.possible:
        found.setdefault(possible.setting.name, []).append(possible.setting)
    return found


def _set_parts(source: Source) -> Iterator[Part]:
    for part in source.parts:
        if part.kind == "variable" or (part.kind == "entry" and part.name.startswith("env.")):
            yield part


def _plain(name: str) -> str:
    """The name that the program sees: an EDF's table and Apptainer's prefixes taken off."""
    return name.removeprefix("env.").removeprefix("APPTAINERENV_").removeprefix("SINGULARITYENV_")

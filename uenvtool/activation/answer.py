"""Describes the value of a variable in one place, with the reason, in ten lines. `explained` has the full description.

A place is a system, runtime and versions, as `Settings` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uenvtool.activation.explained import POLICIES, about_variable, kept_away, place_of, value_text, values_by_source
from uenvtool.core.words import grouped, listed
from uenvtool.knowledge.left_out import LeftOut, in_recipes, left_out, why
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.tuning import THE_HOOK, Setting, TunedVariable, Tuning

SOURCES_SHOWN = 2
"""How many sources are listed for each other value."""


def held_in(name: str, place: Settings) -> Setting | None:
    """Return the setting of a variable that applies in a place, or None."""
    return next((setting for setting in (*place.by_hook, *place.held()) if setting.name == name), None)


def value_in_place(name: str, tuning: Tuning, place: Settings, whose: str | None = None) -> str:
    """Return one sentence with a variable's value in a place and its reason, or the reason why it is not set.

    whose: the owner of the place's versions for the sentence, by default the recipe.
    """
    held = held_in(name, place)
    if held is not None:
        setter = f", set by {THE_HOOK}" if held in place.by_hook else ""
        return f"{place_of(place)}: {value_text(held)}{setter}; source {held.source.name}: {held.reason}"
    return f"{place_of(place)}: not set{_why_not(name, tuning, place, whose)}"


def answer(
    name: str, variables: Sequence[TunedVariable], tuning: Tuning, place: Settings, value: str | None
) -> Iterator[str]:
    """Yield the lines that describe a variable in a place. value: the sentence of `value_in_place`."""
    held = held_in(name, place)
    yield name
    yield f"  {f'{place_of(place)}: {value_text(held)}' if held else value}"
    about = about_variable(variables)
    if about:
        yield _row("about", about)
    if held:
        yield _row("why", held.reason)
        yield _row("how", f"set by {THE_HOOK}" if held in place.by_hook else POLICIES[held.policy])
        if held.conflicts:
            yield _row("avoid", f"do not set it together with {', '.join(held.conflicts)}")
        if held.needs:
            yield _row("needs", held.needs.hint)
        yield _row("source", f"{held.source.name} ({held.source.date}) {held.source.url}".rstrip())
    elif (nearest := _nearest(name, tuning, place)) and nearest.needs_version:
        if_known = nearest.setting
        yield _row("would be", f"{value_text(if_known)}: {if_known.reason} [{if_known.source.name}]")
    for guard in place.guards:
        if name in guard.variables:
            yield _row("danger", f"{guard.danger}; here {kept_away(guard, place)}")
    yield from _others(values_by_source(variables, tuning), held)
    workarounds = [
        workaround.name
        for workaround in tuning.workarounds.values()
        if name in {setting.name for setting in workaround.settings}
    ]
    if workarounds:
        yield _row("option", f"--workaround {' or '.join(workarounds)} sets it")


def _others(says: Sequence[tuple[str, str, str, str]], held: Setting | None) -> Iterator[str]:
    sources_of_values = grouped((value, source) for source, _, value, _ in says)
    own_value = "unset" if held and held.removes else held.value if held else None
    others = [
        f"{value} ({listed(names, SOURCES_SHOWN)})" for value, names in sources_of_values.items() if value != own_value
    ]
    if others:
        yield _row("others" if held else "values", "; ".join(others))


def _row(word: str, text: str) -> str:
    return f"    {word + ':':8} {text}"


def _nearest(name: str, tuning: Tuning, place: Settings) -> LeftOut | None:
    return next(iter(left_out(place, [setting for setting in tuning.settings if setting.name == name])), None)


def _why_not(name: str, tuning: Tuning, place: Settings, whose: str | None) -> str:
    nearest = _nearest(name, tuning, place)
    if nearest is None:
        return (
            ""
            if any(setting.name == name for setting in tuning.settings)
            else " on any system: choose a value yourself"
        )
    versions = "" if nearest.failing else "".join(f"; {text}" for text in in_recipes(nearest, place))
    return f", {why(nearest, place, whose)}{versions}"

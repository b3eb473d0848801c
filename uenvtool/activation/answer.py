"""What a variable is in one place, and why, in ten lines; the rest of what is known of it is in `explained`."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.activation.explained import POLICIES, ExplainedVariable, kept_away, place_of, value_text
from uenvtool.core.words import grouped, listed
from uenvtool.knowledge.left_out import LeftOut, in_recipes, left_out, why
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.tuning import THE_HOOK, Setting, Tuning

SOURCES_SHOWN = 2
"""Of those that say another value."""


def held_in(name: str, here: Settings) -> Setting | None:
    """Return the setting of a variable that holds in a place, if one does."""
    return next((setting for setting in (*here.by_hook, *here.held()) if setting.name == name), None)


def value_here(name: str, tuning: Tuning, here: Settings, whose: str | None = None) -> str:
    """Return what a variable is in a place, in a sentence: its value with its reason, or why it has none.

    whose: who has the versions of the place; default: the recipe.
    """
    held = held_in(name, here)
    if held is not None:
        way = f", set by {THE_HOOK}" if held in here.by_hook else ""
        return f"{place_of(here)}: {value_text(held)}{way}, as {held.source.name} says: {held.reason}"
    return f"{place_of(here)}: not set{_why_not(name, tuning, here, whose)}"


def answer(known: ExplainedVariable, tuning: Tuning, here: Settings) -> str:
    """Return what a variable is in a place, to be read."""
    return "\n".join([known.name, *_lines(known, tuning, here)])


def _lines(known: ExplainedVariable, tuning: Tuning, here: Settings) -> Iterator[str]:
    held = held_in(known.name, here)
    yield f"  {f'{place_of(here)}: {value_text(held)}' if held else known.here}"
    if known.about:
        yield _row("about", known.about)
    if held:
        yield _row("why", held.reason)
        yield _row("how", f"set by {THE_HOOK}" if held in here.by_hook else POLICIES[held.policy])
        if held.conflicts:
            yield _row("apart", f"must not be set beside {', '.join(held.conflicts)}")
        if held.needs:
            yield _row("needs", held.needs.hint)
        yield _row("source", f"{held.source.name} ({held.source.date}) {held.source.url}".rstrip())
    elif (nearest := _nearest(known.name, tuning, here)) and nearest.needs_version:
        then = nearest.setting
        yield _row("then", f"{value_text(then)}: {then.reason} [{then.source.name}]")
    for guard in here.guards:
        if known.name in guard.variables:
            yield _row("danger", f"{guard.danger}; here {kept_away(guard, here)}")
    yield from _others(known, held)
    ways = [found.name for found in tuning.workarounds.values() if known.name in {one.name for one in found.settings}]
    if ways:
        yield _row("else", f"set by --workaround {' or '.join(ways)}")


def _others(known: ExplainedVariable, held: Setting | None) -> Iterator[str]:
    said_by = grouped((value, source) for source, _, value, _ in known.says)
    mine = "unset" if held and held.removes else held.value if held else None
    others = [f"{value} ({listed(names, SOURCES_SHOWN)})" for value, names in said_by.items() if value != mine]
    if others:
        yield _row("others" if held else "said", "; ".join(others))


def _row(word: str, text: str) -> str:
    return f"    {word + ':':8} {text}"


def _nearest(name: str, tuning: Tuning, here: Settings) -> LeftOut | None:
    return next(iter(left_out(here, [setting for setting in tuning.settings if setting.name == name])), None)


def _why_not(name: str, tuning: Tuning, here: Settings, whose: str | None) -> str:
    nearest = _nearest(name, tuning, here)
    if nearest is None:
        return "" if any(setting.name == name for setting in tuning.settings) else ", as anywhere: it is left to you"
    versions = "" if nearest.failing else "".join(f"; {text}" for text in in_recipes(nearest, here))
    return f", {why(nearest, here, whose)}{versions}"

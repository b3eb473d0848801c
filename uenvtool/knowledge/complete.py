"""The names for shell completion. Typer filters them by the typed text."""

from __future__ import annotations

from collections.abc import Callable


def _names_of(kind: str) -> Callable[[], list[str]]:
    def names() -> list[str]:
        from uenvtool.knowledge import kinds
        from uenvtool.knowledge.locate import available

        return sorted(available(getattr(kinds, kind)))

    return names


systems, recipes, containers, runtimes = map(_names_of, ("SYSTEM", "RECIPE", "CONTAINER", "RUNTIME"))


def workarounds() -> list[str]:
    """Return the names of the workarounds."""
    from uenvtool.knowledge.tuning import load_all

    return sorted(load_all().workarounds)


def explained() -> list[str]:
    """Return the names of the variables and of the sources of their values, all of which `explain` accepts."""
    from uenvtool.knowledge.sources import load_sources
    from uenvtool.knowledge.tuning import load_all

    return sorted({*(variable.name for variable in load_all().variables), *load_sources()})

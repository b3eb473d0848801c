"""The names for shell completion. Typer filters them by the typed text."""

from __future__ import annotations


def systems() -> list[str]:
    """Return the names of the systems."""
    return _named("SYSTEM")


def recipes() -> list[str]:
    """Return the names of the recipes of environments."""
    return _named("RECIPE")


def containers() -> list[str]:
    """Return the names of the container recipes."""
    return _named("CONTAINER")


def runtimes() -> list[str]:
    """Return the names of the runtimes."""
    return _named("RUNTIME")


def workarounds() -> list[str]:
    """Return the names of the workarounds."""
    from uenvtool.knowledge.tuning import load_all

    return sorted(load_all().workarounds)


def explained() -> list[str]:
    """Return the names of the variables and of the sources of their values, all of which `explain` accepts."""
    from uenvtool.knowledge.sources import load_sources
    from uenvtool.knowledge.tuning import load_all

    return sorted({*(variable.name for variable in load_all().variables), *load_sources()})


def _named(kind: str) -> list[str]:
    from uenvtool.knowledge import kinds
    from uenvtool.knowledge.locate import available

    return sorted(available(getattr(kinds, kind)))

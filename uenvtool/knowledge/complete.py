"""What the shell completes: the names that exist; Typer takes those that begin as what is typed."""

from __future__ import annotations


def systems() -> list[str]:
    """Return the systems."""
    return _named("SYSTEM")


def recipes() -> list[str]:
    """Return the recipes of environments."""
    return _named("RECIPE")


def containers() -> list[str]:
    """Return the recipes of containers."""
    return _named("CONTAINER")


def runtimes() -> list[str]:
    """Return the runtimes."""
    return _named("RUNTIME")


def workarounds() -> list[str]:
    """Return the workarounds."""
    from uenvtool.knowledge.tuning import load_all

    return sorted(load_all().workarounds)


def explained() -> list[str]:
    """Return the variables, and the sources of their values."""
    from uenvtool.knowledge.sources import load_sources
    from uenvtool.knowledge.tuning import load_all

    return sorted({*(found.name for found in load_all().variables), *load_sources()})


def _named(kind: str) -> list[str]:
    from uenvtool.knowledge import kinds
    from uenvtool.knowledge.locate import available

    return sorted(available(getattr(kinds, kind)))

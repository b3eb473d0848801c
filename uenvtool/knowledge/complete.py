"""What the shell completes: the names that exist, for options and arguments."""

from __future__ import annotations

from collections.abc import Iterable


def systems(incomplete: str) -> list[str]:
    """Return the systems."""
    from uenvtool.knowledge.kinds import SYSTEM
    from uenvtool.knowledge.locate import available

    return starting(incomplete, available(SYSTEM))


def recipes(incomplete: str) -> list[str]:
    """Return the recipes."""
    from uenvtool.knowledge.kinds import RECIPE
    from uenvtool.knowledge.locate import available

    return starting(incomplete, available(RECIPE))


def containers(incomplete: str) -> list[str]:
    """Return the container recipes."""
    from uenvtool.knowledge.kinds import CONTAINER
    from uenvtool.knowledge.locate import available

    return starting(incomplete, available(CONTAINER))


def runtimes(incomplete: str) -> list[str]:
    """Return the runtimes."""
    from uenvtool.knowledge.kinds import RUNTIME
    from uenvtool.knowledge.locate import available

    return starting(incomplete, available(RUNTIME))


def workarounds(incomplete: str) -> list[str]:
    """Return the workarounds."""
    from uenvtool.knowledge.tuning import load_all

    return starting(incomplete, load_all().workarounds)


def variables(incomplete: str) -> list[str]:
    """Return the variables and the sources: `explain` takes either."""
    from uenvtool.knowledge.tuning import load_all, load_sources

    return starting(incomplete.upper(), {found.name for found in load_all().variables}) + starting(
        incomplete, load_sources()
    )


def sources(incomplete: str) -> list[str]:
    """Return the sources."""
    from uenvtool.knowledge.tuning import load_sources

    return starting(incomplete, load_sources())


def starting(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin so, in order."""
    return sorted(name for name in names if name.startswith(incomplete))

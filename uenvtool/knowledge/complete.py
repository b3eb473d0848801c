"""What the shell completes: the names that exist, for options and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _named(kind: str) -> Callable[[str], list[str]]:

    def complete(incomplete: str) -> list[str]:
        from uenvtool.knowledge import kinds
        from uenvtool.knowledge.locate import available

        return starting(incomplete, available(getattr(kinds, kind)))

    return complete


systems, recipes, containers, runtimes = map(_named, ("SYSTEM", "RECIPE", "CONTAINER", "RUNTIME"))


def workarounds(incomplete: str) -> list[str]:
    """Return the workarounds."""
    from uenvtool.knowledge.tuning import load_all

    return starting(incomplete, load_all().workarounds)


def variables(incomplete: str) -> list[str]:
    """Return the variables."""
    from uenvtool.knowledge.tuning import load_all

    return starting(incomplete.upper(), {found.name for found in load_all().variables})


def starting(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin so, in order."""
    return sorted(name for name in names if name.startswith(incomplete))

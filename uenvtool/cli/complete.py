"""What the shell completes: the names that exist, for options and arguments."""

from __future__ import annotations

from collections.abc import Iterable


def systems(incomplete: str) -> list[str]:
    """The systems."""
    from uenvtool.model.kinds import SYSTEM
    from uenvtool.model.locate import available

    return _starting(incomplete, available(SYSTEM))


def recipes(incomplete: str) -> list[str]:
    """The recipes."""
    from uenvtool.model.kinds import RECIPE
    from uenvtool.model.locate import available

    return _starting(incomplete, available(RECIPE))


def containers(incomplete: str) -> list[str]:
    """The container recipes."""
    from uenvtool.model.kinds import CONTAINER
    from uenvtool.model.locate import available

    return _starting(incomplete, available(CONTAINER))


def runtimes(incomplete: str) -> list[str]:
    """The runtimes."""
    from uenvtool.model.kinds import RUNTIME
    from uenvtool.model.locate import available

    return _starting(incomplete, available(RUNTIME))


def workarounds(incomplete: str) -> list[str]:
    """The workarounds."""
    from uenvtool.model.tuning_reader import load_all

    return _starting(incomplete, load_all().workarounds)


def variables(incomplete: str) -> list[str]:
    """The variables and the sources: `explain` takes either."""
    from uenvtool.model.tuning_reader import load_all, load_sources

    return _starting(incomplete.upper(), {found.name for found in load_all().variables}) + _starting(
        incomplete, load_sources()
    )


def shells(incomplete: str) -> list[str]:
    """The shells and forms."""
    from uenvtool.activation.formats import FORMATS
    from uenvtool.commands.activate import SHELLS

    return _starting(incomplete, [*SHELLS, *FORMATS])


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))

"""The supported shells, each with a class and a template next to it."""

from __future__ import annotations

from uenvtool.activation.script import Dialect
from uenvtool.activation.shells.bash import SHELL


def shells() -> dict[str, Dialect]:
    """Return the dialect of each shell by its name for --shell."""
    return dict.fromkeys(SHELL.shells, SHELL)

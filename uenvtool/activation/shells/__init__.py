"""The shells that scripts are written for: a class and its template beside it."""

from __future__ import annotations

from uenvtool.activation.script import Dialect
from uenvtool.activation.shells.bash import SHELL


def shells() -> dict[str, Dialect]:
    """Return the dialect of each shell by the name that --shell takes."""
    return dict.fromkeys(SHELL.shells, SHELL)

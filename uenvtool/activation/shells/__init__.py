"""The shells that scripts are written for: a module each, with its class SHELL, and its template beside it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from uenvtool.activation.script import Dialect


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return what each module of this folder has as SHELL."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return tuple(module.SHELL for module in modules)


def shells() -> dict[str, Dialect]:
    """Return the dialect of each shell by the name that --shell takes."""
    return {name: dialect for dialect in dialects() for name in dialect.shells}

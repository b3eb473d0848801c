"""A TOML reader that is not the one that wrote it: Python's own, or the package it came from before 3.11."""

from __future__ import annotations

try:
    from tomllib import loads
except ImportError:
    from tomli import loads  # type: ignore[no-redef, unused-ignore]

__all__ = ["loads"]

"""A TOML reader other than the library that writes the files: tomllib, or tomli before Python 3.11."""

from __future__ import annotations

try:
    from tomllib import loads
except ImportError:
    from tomli import loads  # type: ignore[no-redef, unused-ignore]

__all__ = ["loads"]

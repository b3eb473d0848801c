"""Runs in the base's Python and prints that Python's version, paths and distributions as one line of JSON.

With the argument `paths`, it omits the distributions. It needs only the standard library of Python 3.8 or newer and
imports none of the base's packages. The reader ignores all output before the marker, for example from a
`sitecustomize` that prints.
"""

from __future__ import annotations  # so that Python 3.8 can run this file

import sys

sys.path.pop(0)  # the directory of this script is not part of the base

import json
import os
import site
import sysconfig
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib import metadata

MARKER = "uenvtool-probe:"


def described(distribution: metadata.Distribution, directory: str) -> dict[str, object] | None:
    """Return a description of one distribution, or None if it has no name or version."""
    try:
        name, version = distribution.metadata["Name"], distribution.version
        requires = distribution.requires or []
        extras = distribution.metadata.get_all("Provides-Extra") or []
    except Exception:  # one broken distribution must not hide the others
        return None
    try:
        points = [point for point in distribution.entry_points if point.group == "console_scripts"]
    except Exception:  # invalid commands must not hide the distribution
        points = []
    if not name or not version:
        return None
    return {
        "name": str(name),
        "version": str(version),
        "folder": directory,
        "requires": [str(requirement) for requirement in requires],
        "extras": [str(extra) for extra in extras],
        "scripts": {point.name: point.value for point in points},
        "metadata": str(getattr(distribution, "_path", "")),
    }


def distributions(directories: list[str]) -> list[dict[str, object]]:
    """Describe all distributions. If a name occurs twice, the first one wins, as in importlib.metadata."""
    from importlib import metadata  # imported late because it is slow

    described_by_name: dict[str, dict[str, object]] = {}
    for directory in directories:
        for distribution in metadata.distributions(path=[directory]):
            data = described(distribution, directory)
            if data:
                described_by_name.setdefault(str(data["name"]).lower().replace("_", "-").replace(".", "-"), data)
    return [described_by_name[key] for key in sorted(described_by_name)]


def main() -> None:
    """Print the description of this Python."""
    stdlib = os.path.dirname(os.__file__)
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    standard = {stdlib, sysconfig.get_path("stdlib")}
    standard |= {path for path in sys.path if os.path.basename(path) in (zipped, "lib-dynload")}
    directories = [os.path.abspath(path) for path in sys.path if path and path not in standard and os.path.isdir(path)]
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    sites = [os.path.abspath(path) for path in [*site.getsitepackages(), *user]]  # Python reads their .pth files
    data = {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "base_executable": getattr(sys, "_base_executable", None) or sys.executable,
        **{name: getattr(sys, name) for name in ("prefix", "base_prefix", "base_exec_prefix")},
        "stdlib": stdlib,
        "platform": sysconfig.get_platform(),
        "folders": directories,
        "sites": [path for path in sites if path in directories],
        "user_site": user[0] if user else None,
        "distributions": [] if sys.argv[1:] == ["paths"] else distributions(directories),
    }
    sys.stdout.write(MARKER + json.dumps(data) + "\n")


main()

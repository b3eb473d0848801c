"""Runs in the base's Python and prints what that Python is and what it has, as one line of JSON.

With the argument `paths` it leaves out the distributions. Everything here works with the standard library of Python
3.8 and newer, and imports nothing of the base's packages. Output before the marker (a `sitecustomize` that prints) is
left aside by the reader.
"""

from __future__ import annotations  # the annotations below must not keep an older Python from answering

import sys

sys.path.pop(0)  # the folder of this script is no part of the base

import json
import os
import site
import sysconfig
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib import metadata

MARKER = "uenvtool-probe:"


def described(distribution: metadata.Distribution, folder: str) -> dict[str, object] | None:
    """Describe one distribution; None if it has no name or version."""
    try:
        name, version = distribution.metadata["Name"], distribution.version
        requires = distribution.requires or []
        extras = distribution.metadata.get_all("Provides-Extra") or []
    except Exception:  # one broken distribution must not hide the others
        return None
    try:
        points = [point for point in distribution.entry_points if point.group == "console_scripts"]
    except Exception:  # nor must its commands
        points = []
    if not name or not version:
        return None
    return {
        "name": str(name),
        "version": str(version),
        "folder": folder,
        "requires": [str(requirement) for requirement in requires],
        "extras": [str(extra) for extra in extras],
        "scripts": {point.name: point.value for point in points},
        "metadata": str(getattr(distribution, "_path", "")),
    }


def distributions(folders: list[str]) -> list[dict[str, object]]:
    """Describe all distributions, the first of a name winning as it does for importlib.metadata."""
    from importlib import metadata  # takes longer than all the rest

    found: dict[str, dict[str, object]] = {}
    for folder in folders:
        for distribution in metadata.distributions(path=[folder]):
            data = described(distribution, folder)
            if data:
                found.setdefault(str(data["name"]).lower().replace("_", "-").replace(".", "-"), data)
    return [found[key] for key in sorted(found)]


def main() -> None:
    """Print the description."""
    stdlib = os.path.dirname(os.__file__)
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    standard = {stdlib, sysconfig.get_path("stdlib")}
    standard |= {path for path in sys.path if os.path.basename(path) in (zipped, "lib-dynload")}
    folders = [os.path.abspath(path) for path in sys.path if path and path not in standard and os.path.isdir(path)]
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    sites = [os.path.abspath(path) for path in [*site.getsitepackages(), *user]]  # whose .pth files this Python runs
    data = {
        "version": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "base_executable": getattr(sys, "_base_executable", None) or sys.executable,
        **{name: getattr(sys, name) for name in ("prefix", "base_prefix", "base_exec_prefix")},
        "stdlib": stdlib,
        "platform": sysconfig.get_platform(),
        "folders": folders,
        "sites": [path for path in sites if path in folders],
        "user_site": user[0] if user else None,
        "distributions": [] if sys.argv[1:] == ["paths"] else distributions(folders),
    }
    sys.stdout.write(MARKER + json.dumps(data) + "\n")


main()

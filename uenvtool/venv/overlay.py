"""Writes the files of an overlay that belong to no package: pyvenv.cfg, bin/, the sys.path hook and base commands."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path

from uenvtool.core import processes, quoting
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, link
from uenvtool.core.filling import filled
from uenvtool.venv.base import MARKER, Base, is_loaded, listing, loading_command, marked, script_path, site_packages

CONFIG = "pyvenv.cfg"
HERE = "@HERE@"
"""A placeholder for the overlay's directory. Its scripts find the directory at run time, so an overlay can be moved."""
HOOK = "_uenvtool_overlay"
PTH = "zzz_uenvtool_overlay.pth"
"""Python reads .pth files sorted by name, and this one must come after the ones of editable installs."""
OWN = (f"{HOOK}.py", PTH)
"""The files in an overlay's site-packages that belong to no package."""
_ENTRY_POINT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(\[.*\])?\s*\Z")
_COMMAND = re.compile(r"(?!python|activate|pip3\.)[A-Za-z0-9_][\w.+-]*\Z")
_CHECK = (
    "import os, sys, json, _ctypes, _hashlib; "
    f"print('{MARKER}' + json.dumps([sys.prefix, os.path.dirname(os.__file__)]))"
)


def create(directory: Path, base: Base) -> None:
    """Write the files of an empty overlay. Raises ToolFailed if the base's Python cannot start an environment."""
    site = site_packages(base.version)
    (directory / site).mkdir(parents=True, exist_ok=True)
    fill(directory / site, {f"{HOOK}.py": script("hook.py"), PTH: f"import {HOOK}\n"})
    fill(directory, {".gitignore": "*\n"})
    fill(directory / "bin", {"activate": script("activate.sh")})
    for name in ("python3", f"python{base.minor}"):
        link(directory / "bin" / name, "python")
    link(directory / "lib64", "lib")
    loader = loading_command(base_data := asdict(base.found_base), HERE)
    if loader:
        arguments = " ".join('"${here%/*}"' if word == HERE else quoting.sh(word) for word in loader)
        wrapper = filled(script("python-on-base.sh"), LOADED=is_loaded(base_data), LOAD=arguments)
        fill(directory, {"bin/python-on-base": wrapper}, executable=["bin/python-on-base"])
    reason = ""
    for home in base.homes:
        candidates = [f"python{base.minor}", "python3", os.path.basename(base.base_executable), "python"]
        program = next((name for name in candidates if os.access(os.path.join(home, name), os.X_OK)), candidates[0])
        prefix, load = os.path.dirname(os.path.dirname(base.stdlib)), base.found_base.load
        wrapper = python_wrapper(os.path.join(home, program), load, mount=base.mount, prefix=prefix)
        fill(directory, {CONFIG: _config(base, home), "bin/python": wrapper}, executable=["bin/python"])
        reason = _start_problem(directory, base)
        if not reason:
            return
    message = f"{base.python} cannot start a virtual environment: {reason}"
    raise ToolFailed(message, hint="name another Python with --base PYTHON")


def _config(base: Base, home: str) -> str:
    lines = {
        "home": home,
        "implementation": "CPython",
        "include-system-site-packages": "false",
        "relocatable": "true",  # then uv writes commands that can be moved
        "version_info": base.version,
        "uenvtool-base": os.pathsep.join(base.folders),
        "uenvtool-base-site": os.pathsep.join(base.sites),
        "uenvtool-base-mount": base.mount,
        "uenvtool-base-listing": "" if base.found_base.in_container else listing(base.folders),
        "uenvtool-root": base.found_base.root,
        "uenvtool-name": base.found_base.name,
        "uenvtool-load": base.found_base.load,
    }
    return "".join(f"{name} = {' '.join(value.splitlines())}".rstrip() + "\n" for name, value in lines.items())


def _start_problem(directory: Path, base: Base) -> str:
    completed = processes.run([directory / "bin" / "python", "-I", "-c", _CHECK])
    printed = marked(completed)
    if printed is None:
        return completed.reason
    prefix, stdlib = printed
    if os.path.realpath(prefix) != os.path.realpath(directory):
        return f"it uses {prefix} as its environment"
    is_same = os.path.realpath(stdlib) == os.path.realpath(base.stdlib)
    return "" if is_same else f"it uses {stdlib} as its standard library"


def add_base_commands(directory: Path, base: Base) -> None:
    """Write the base's commands into the overlay, except commands that the overlay's packages installed.

    The base's own `torchrun` would start the base's Python, which does not import the overlay's packages.
    """
    commands = {
        name: filled(script("command.sh"), MODULE=point[1], FIRST=point[2].partition(".")[0], FUNCTION=point[2])
        for package in base.packages.values()
        for name, target in (package.scripts or {}).items()
        if (point := _ENTRY_POINT.match(target))
        and _COMMAND.match(name)
        and not os.path.lexists(directory / "bin" / name)
    }
    fill(directory / "bin", dict(sorted(commands.items())), executable=commands)


def python_wrapper(interpreter: str, load: str, *, mount: str = "", prefix: str = "") -> str:
    """Return the text of bin/python, which starts the base's interpreter, or prints a hint and exits with 1.

    The wrapper passes its path on with `exec -a`, because Python looks for pyvenv.cfg next to the name that it was
    started with (CPython, Modules/getpath.py). mount: the mount point of the base's uenv, or an empty string. prefix:
    the prefix of the base's Python, which an interpreter at another mount point needs.
    """
    advice = "recreate the overlay with another Python: uenvtool venv PATH --base PYTHON"
    hint = f"load it first: {load}" if load else advice
    missing = f"uenvtool: the base of this overlay was not found: {interpreter}; {hint}"
    values = {"BASE": interpreter, "MISSING": missing, "MOUNT": mount, "PREFIX": prefix}
    return filled(script("python.sh"), **{name: quoting.sh(value) for name, value in values.items()})


def script(name: str) -> str:
    """Return the text of a script in scripts/."""
    return script_path(name).read_text(encoding="utf-8")

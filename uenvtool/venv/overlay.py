"""Makes the files of an overlay that are not packages: pyvenv.cfg, bin/, the hook that lets it win, the commands."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path

from uenvtool.core import processes, quoting
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, link
from uenvtool.core.filling import filled
from uenvtool.venv.base import MARKER, Base, listing, marked, script_path
from uenvtool.venv.discovery import is_loaded, loading_words

CONFIG = "pyvenv.cfg"
HERE = "@HERE@"
"""Stands for the overlay's own folder, which its scripts find out: it can be moved."""
HOOK = "_uenvtool_overlay"
PTH = "zzz_uenvtool_overlay.pth"
"""Python reads .pth files sorted by name: after the ones of editable installs."""
_ENTRY_POINT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(\[.*\])?\s*\Z")
_COMMAND = re.compile(r"(?!python|activate|pip3\.)[A-Za-z0-9_][\w.+-]*\Z")
_CHECK = (
    "import os, sys, json, _ctypes, _hashlib; "
    f"print('{MARKER}' + json.dumps([sys.prefix, os.path.dirname(os.__file__)]))"
)


def site_packages(version: str) -> str:
    """Return where packages lie in an overlay, relative to it."""
    return f"lib/python{'.'.join(version.split('.')[:2])}/site-packages"


def create(folder: Path, base: Base) -> None:
    """Fill an empty folder with an overlay that has no packages yet.

    Raises ToolFailed if the base's interpreter cannot serve an environment.
    """
    site = site_packages(base.version)
    (folder / site).mkdir(parents=True, exist_ok=True)
    fill(folder / site, {f"{HOOK}.py": script("hook.py"), PTH: f"import {HOOK}\n"})
    fill(folder, {".gitignore": "*\n"})
    fill(folder / "bin", {"activate": script("activate.sh")})
    for name in ("python3", f"python{base.minor}"):
        link(folder / "bin" / name, "python")
    link(folder / "lib64", "lib")
    load = loading_words(found := asdict(base.found), HERE)
    if load:
        words = " ".join('"${here%/*}"' if word == HERE else quoting.sh(word) for word in load)
        wrapper = filled(script("python-on-base.sh"), LOADED=is_loaded(found), LOAD=words)
        fill(folder, {"bin/python-on-base": wrapper}, executable=["bin/python-on-base"])
    reason = ""
    for home in base.homes:
        named = [f"python{base.minor}", "python3", os.path.basename(base.base_executable), "python"]
        program = next((name for name in named if os.access(os.path.join(home, name), os.X_OK)), named[0])
        wrapper = python_wrapper(
            os.path.join(home, program),
            base.found.load,
            mount=base.mount,
            prefix=os.path.dirname(os.path.dirname(base.stdlib)),
        )
        fill(folder, {CONFIG: _config(base, home), "bin/python": wrapper}, executable=["bin/python"])
        reason = _wrong(folder, base)
        if not reason:
            return
    raise ToolFailed(f"{base.python} cannot carry an environment: {reason}", hint="name another one with --base PYTHON")


def _config(base: Base, home: str) -> str:
    """Write pyvenv.cfg. `relocatable` makes uv write commands that can be moved."""
    lines = {
        "home": home,
        "implementation": "CPython",
        "include-system-site-packages": "false",
        "relocatable": "true",
        "version_info": base.version,
        "uenvtool-base": os.pathsep.join(base.folders),
        "uenvtool-base-site": os.pathsep.join(base.sites),
        "uenvtool-base-mount": base.mount,
        "uenvtool-base-listing": "" if base.found.in_container else listing(base.folders),
        "uenvtool-root": base.found.root,
        "uenvtool-name": base.found.name,
        "uenvtool-load": base.found.load,
    }
    return "".join(f"{name} = {' '.join(value.splitlines())}".rstrip() + "\n" for name, value in lines.items())


def _wrong(folder: Path, base: Base) -> str:
    """Say what is wrong with the overlay's Python; nothing if it starts on the base's standard library."""
    completed = processes.run([folder / "bin" / "python", "-I", "-c", _CHECK])
    found = marked(completed)
    if found is None:
        return completed.reason
    prefix, stdlib = found
    if os.path.realpath(prefix) != os.path.realpath(folder):
        return f"it takes {prefix} for its environment"
    same = os.path.realpath(stdlib) == os.path.realpath(base.stdlib)
    return "" if same else f"it takes {stdlib} for its standard library"


def add_base_commands(folder: Path, base: Base) -> None:
    """Give the overlay the base's commands, as its own: `torchrun` must run the overlay's Python.

    The base's own file starts the base's interpreter, which does not see the overlay. What the
    overlay's packages brought stays.
    """
    commands = {
        name: filled(script("command.sh"), MODULE=point[1], FIRST=point[2].partition(".")[0], FUNCTION=point[2])
        for package in base.packages.values()
        for name, target in (package.scripts or {}).items()
        if (point := _ENTRY_POINT.match(target)) and _COMMAND.match(name) and not os.path.lexists(folder / "bin" / name)
    }
    fill(folder / "bin", dict(sorted(commands.items())), executable=commands)


def python_wrapper(interpreter: str, load: str, *, mount: str = "", prefix: str = "") -> str:
    """Write bin/python: the base's interpreter if it is there, else one line that says the way, and exit code 1.

    The kernel hands the wrapper's own path over, also for a command whose first line names it, and
    `exec -a` gives it on: Python looks for pyvenv.cfg beside the name that it was started with
    (CPython, Modules/getpath.py). mount: where the base's uenv is mounted, if it is one; prefix: the folder of
    its Python, which an interpreter at another mount has to be given.
    """
    again = "make it again on a Python that is here: uenvtool venv PATH --base PYTHON"
    way = f"load it first: {load}" if load else again
    missing = f"uenvtool: the base of this overlay is not here: {interpreter}; {way}"
    values = {"BASE": interpreter, "MISSING": missing, "MOUNT": mount, "PREFIX": prefix}
    return filled(script("python.sh"), **{name: quoting.sh(value) for name, value in values.items()})


def script(name: str) -> str:
    """Read a script that the tool carries."""
    return script_path(name).read_text(encoding="utf-8")

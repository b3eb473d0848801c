"""Makes the files of an overlay that are not packages: pyvenv.cfg, bin/, the hook, the commands."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from uenvtool.core import tools
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, link, make_folder
from uenvtool.venv.base import Base, Distribution, listing
from uenvtool.venv.precedence import SITE, activation_scripts, hook_files, missing_message, python_wrapper

CONFIG = "pyvenv.cfg"
RECORD_FOLDER = ".uenvtool"
_ENTRY_POINT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\s*(\[.*\])?\s*\Z")
_COMMAND = re.compile(r"[A-Za-z0-9_][\w.+-]*\Z")
_CHECK = (
    "import os, sys, json, _ctypes, _hashlib; "
    "print('uenvtool-probe:' + json.dumps([sys.prefix, os.path.dirname(os.__file__)]))"
)


def site_packages(version: str) -> str:
    """Where packages lie in an overlay, relative to it."""
    return f"lib/python{'.'.join(version.split('.')[:2])}/site-packages"


def create(folder: Path, base: Base, precedence: str) -> str:
    """Fill an empty folder with an overlay that has no packages yet; the `home` that works.

    Raises ToolFailed if the base's interpreter cannot serve an environment.
    """
    site = folder / site_packages(base.version)
    fill(site, hook_files() if precedence == SITE else {})
    make_folder(site)
    scripts = activation_scripts(site_packages(base.version), base.folders, precedence)
    fill(folder / "bin", scripts)
    for name in ("python3", f"python{base.minor}"):
        link(folder / "bin" / name, "python")
    link(folder / "lib64", "lib")
    fill(folder, {".gitignore": "*\n"})
    reason = ""
    for home in base.homes:
        _write_interpreter(folder, base, home, precedence)
        reason = _wrong(folder, base)
        if not reason:
            return home
    raise ToolFailed(f"{base.python} cannot carry an environment: {reason}", hint="name another one with --base PYTHON")


def config(base: Base, home: str, precedence: str) -> str:
    """The text of pyvenv.cfg. `relocatable` makes uv write commands that can be moved."""
    lines = {
        "home": home,
        "implementation": "CPython",
        "include-system-site-packages": "false",
        "relocatable": "true",
        "version_info": base.version,
        "uenvtool-base": os.pathsep.join(base.folders),
        "uenvtool-base-site": os.pathsep.join(base.sites),
        "uenvtool-base-mount": base.mount,
        "uenvtool-base-listing": listing(base.folders) if base.mount else "",
        "uenvtool-root": base.found.root,
        "uenvtool-name": base.found.name,
        "uenvtool-load": base.found.load,
        "uenvtool-precedence": precedence,
    }
    return "".join(f"{name} = {' '.join(value.splitlines())}".rstrip() + "\n" for name, value in lines.items())


def add_base_commands(folder: Path, base: Base) -> int:
    """Give the overlay the base's commands, as its own: `torchrun` must run the overlay's Python.

    The base's own file starts the base's interpreter, which does not see the overlay. What the
    overlay's packages brought stays.
    """
    commands = {}
    for name, target in _commands(base.packages.values()):
        if not os.path.lexists(folder / "bin" / name):
            commands[name] = target
    fill(folder / "bin", dict(sorted(commands.items())), executable=commands)
    return len(commands)


def _commands(packages: Iterable[Distribution]) -> Iterator[tuple[str, str]]:
    for package in packages:
        for name, target in (package.scripts or {}).items():
            match = _ENTRY_POINT.match(target)
            if match and _COMMAND.match(name) and not name.startswith(("python", "activate", "pip3.")):
                yield name, _command(match[1], match[2])


def _command(module: str, function: str) -> str:
    """A command that finds its Python beside itself, in the form that uv and pip write."""
    first = function.partition(".")[0]
    return f"""#!/bin/sh
'''exec' "$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@"
' '''
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].removesuffix(".exe")
    sys.exit({function}())
"""


def _write_interpreter(folder: Path, base: Base, home: str, precedence: str) -> None:
    named = [f"python{base.minor}", "python3", os.path.basename(base.base_executable), "python"]
    program = next((name for name in named if os.access(os.path.join(home, name), os.X_OK)), named[0])
    interpreter = os.path.join(home, program)
    message = missing_message(interpreter, base.found.load)
    fill(folder, {CONFIG: config(base, home, precedence)})
    prefix = os.path.dirname(os.path.dirname(base.stdlib))
    wrapper = python_wrapper(interpreter, message, mount=base.mount, prefix=prefix)
    fill(folder / "bin", {"python": wrapper}, executable=["python"])


def _wrong(folder: Path, base: Base) -> str:
    """What is wrong with the overlay's Python; nothing if it starts on the base's standard library."""
    completed = tools.run([folder / "bin" / "python", "-I", "-c", _CHECK])
    for line in completed.stdout.splitlines():
        if line.startswith("uenvtool-probe:"):
            prefix, stdlib = json.loads(line.partition(":")[2])
            if os.path.realpath(prefix) != os.path.realpath(folder):
                return f"it takes {prefix} for its environment"
            if os.path.realpath(stdlib) != os.path.realpath(base.stdlib):
                return f"it takes {stdlib} for its standard library"
            return ""
    return (completed.stderr.strip() or "it prints nothing").splitlines()[-1]

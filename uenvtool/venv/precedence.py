"""What makes an overlay win over its base: the Python wrapper, the start-up hook, the activation scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from uenvtool.core import quoting
from uenvtool.core.filling import filled

SITE, PYTHONPATH = "site", "pythonpath"
HOOK = "_uenvtool_overlay"
PTH = "zzz_uenvtool_overlay.pth"
"""Python reads .pth files sorted by name: after the ones of editable installs."""

_SCRIPTS = Path(__file__).parent / "scripts"


def hook_files() -> dict[str, str]:
    """The files in site-packages that put the overlay first: name -> content."""
    return {f"{HOOK}.py": script("hook.py"), PTH: f"import {HOOK}\n"}


def python_wrapper(interpreter: str, missing: str, *, mount: str = "", prefix: str = "") -> str:
    """bin/python: the base's interpreter if it is there, else one line that says what is missing.

    The kernel hands the wrapper's own path over, also for a command whose first line names it, and
    `exec -a` gives it on: Python looks for pyvenv.cfg beside the name that it was started with
    (CPython, Modules/getpath.py). mount: where the base's uenv is mounted, if it is one; prefix: the folder of
    its Python, which an interpreter at another mount has to be given.
    """
    values = {"BASE": interpreter, "MISSING": missing, "MOUNT": mount, "PREFIX": prefix}
    return filled(script("python.sh"), **{name: quoting.sh(value) for name, value in values.items()})


def activation_scripts(site: str, base: Sequence[str], precedence: str) -> dict[str, str]:
    """bin/activate for bash and zsh, fish, csh: name -> content.

    site: site-packages relative to the overlay. base: the base's package folders, which the scripts
    put into PYTHONPATH behind the overlay if the precedence is `pythonpath`.
    """
    folders = "".join(f"{os.pathsep}{folder}" for folder in base)
    on = "yes" if precedence == PYTHONPATH else ""
    quoted = {"sh": quoting.sh, "fish": quoting.fish, "csh": quoting.csh}
    names = {"sh": "activate", "fish": "activate.fish", "csh": "activate.csh"}
    return {
        names[shell]: filled(
            script(f"activate.{shell}"),
            SITE=site,
            BY_PYTHONPATH=f'"{on}"',
            FOLDERS=quote(folders) if folders and on else "",
        )
        for shell, quote in quoted.items()
    }


def missing_message(what: str, load: str) -> str:
    """The line of an overlay whose base is not loaded."""
    how = f"; load it first: {load}" if load else ""
    return f"uenvtool: the base of this overlay is not here: {what}{how}"


def script(name: str) -> str:
    """The text of a script that the tool carries."""
    return (_SCRIPTS / name).read_text(encoding="utf-8")


def script_path(name: str) -> Path:
    """Where a script lies that another Python is to run."""
    return _SCRIPTS / name

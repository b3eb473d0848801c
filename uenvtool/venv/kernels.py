"""Writes kernels for Jupyter that start an overlay on its base, wherever the hub runs.

A kernel is a folder with a kernel.json in Jupyter's data folder
(https://jupyter-client.readthedocs.io/en/stable/kernels.html). Another tool's is never replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uenvtool.core import files, processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Result
from uenvtool.venv.door import opening_words

MAX_BYTES = 1_000_000
OURS = "uenvtool"
LAUNCHER = "ipykernel_launcher"


def _require_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        hint = "letters, digits and . _ - are allowed, and no . or - first"
        raise BadInput(f"{name}: invalid name of a kernel", hint=hint)


def add(path: Path, name: str | None, environ: Mapping[str, str]) -> Result:
    """Write the kernel of an overlay; by default with the overlay's name.

    Raises BadInput for a name that Jupyter cannot have or that another tool has, ToolFailed if the overlay's Python
    does not start there or has no ipykernel.
    """
    name = name or path.absolute().name.removesuffix(".squashfs").lstrip(".")
    _require_name(name)
    folder = _folder(environ) / name.lower()
    if folder.exists() and _overlay_of(folder) is None:
        raise BadInput(f"another tool made the kernel {name}, {folder}", hint="choose another name with --name")
    ran = processes.run(opening_words(path, ["python", "-c", "import ipykernel"], environ), env=environ)
    if ran.code != 0:
        lacks = "ipykernel" in ran.reason
        hint = f"`uenvtool venv {path} ipykernel`" if lacks else "see that its base can be loaded here"
        raise ToolFailed(f"{path} starts no kernel: {ran.reason}", hint=hint)
    kernel = {
        "argv": opening_words(path, ["python", "-m", LAUNCHER, "-f", "{connection_file}"], environ, from_anywhere=True),
        "display_name": name,
        "language": "python",
        "interrupt_mode": "message",  # a signal may not reach through what loads the base
        "metadata": {"debugger": True, OURS: {"overlay": str(path.absolute())}},
    }
    files.write(folder / "kernel.json", json.dumps(kernel, indent=2) + "\n")
    note = f"Jupyter shows {name!r} when its page is loaded again; `jupyter kernelspec remove {folder.name}` removes it"
    return Result(text=str(folder), data={"name": name, "path": str(folder), **kernel}, notes=(note,))


def _folder(environ: Mapping[str, str]) -> Path:
    data = environ.get("JUPYTER_DATA_DIR") or os.path.join(
        environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME", "~"), ".local", "share"), "jupyter"
    )
    return Path(os.path.expanduser(data), "kernels")


def _overlay_of(folder: Path) -> str | None:
    """Read whose kernel it is; None if it is not one of this tool's."""
    try:
        data: dict[str, Any] = json.loads(files.read_bytes(folder / "kernel.json", MAX_BYTES))
        return str(data["metadata"][OURS]["overlay"])
    except (FileNotFoundError, BadInput, ValueError, KeyError, TypeError, RecursionError):
        return None

"""Writes kernels for Jupyter that start an overlay on its base, wherever the hub runs; lists and removes them.

A kernel is a folder with a kernel.json in Jupyter's data folder
(https://jupyter-client.readthedocs.io/en/stable/kernels.html). Another tool's is never replaced nor removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uenvtool.core import files, tools
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Result, Table
from uenvtool.venv.door import opening_words

MAX_BYTES = 1_000_000
OURS = "uenvtool"
LAUNCHER = "ipykernel_launcher"


def require_name(name: str) -> None:
    """Raise BadInput for a name that Jupyter cannot have."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        hint = "letters, digits and . _ - are allowed, and no . or - first"
        raise BadInput(f"{name}: invalid name of a kernel", hint=hint)


def add(path: Path, name: str | None, environ: Mapping[str, str], *, tried: Path | None = None) -> Result:
    """Write the kernel of an overlay; by default with the overlay's name.

    tried: the same overlay where it can be started from here, as beside an image that cannot be mounted here.

    Raises BadInput for a name that Jupyter cannot have or that another tool has, ToolFailed if the overlay's Python
    does not start there or has no ipykernel.
    """
    name = name or path.absolute().name.removesuffix(".squashfs").lstrip(".")
    require_name(name)
    folder = _folder(environ) / name.lower()
    if folder.exists() and _overlay_of(folder) is None:
        raise BadInput(f"another tool made the kernel {name}, {folder}", hint="choose another name with --name")
    ran = tools.run(opening_words(tried or path, ["python", "-c", "import ipykernel"], environ), env=environ)
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
    note = f"Jupyter shows {name!r} when its page is loaded again; `uenvtool kernel remove {name}` removes it"
    return Result(text=str(folder), data={"name": name, "path": str(folder), **kernel}, notes=(note,))


def list_(environ: Mapping[str, str]) -> Result:
    """List the kernels of overlays."""
    found = list(_kernels(environ))
    rows = [
        (folder.name, overlay, "" if os.path.exists(overlay) else "the overlay is gone") for folder, overlay in found
    ]
    data = [{"name": name, "overlay": overlay, "is_here": not gone} for name, overlay, gone in rows]
    notes = () if rows else ("no kernels: `uenvtool kernel add PATH` makes one",)
    tables = (Table(headings=("kernel", "overlay", ""), rows=rows),) if rows else ()
    return Result(data=data, tables=tables, notes=notes)


def remove(name: str, environ: Mapping[str, str]) -> Result:
    """Remove the kernel of an overlay, and nothing else. Raises BadInput if there is none of that name."""
    folder = _folder(environ) / name.lower()
    known = [kernel.name for kernel, _ in _kernels(environ)]
    if name.lower() not in known:
        raise BadInput(f"no kernel of uenvtool's is called {name}", hint=f"known: {', '.join(known) or 'none'}")
    files.remove_file(folder / "kernel.json")
    if not any(folder.iterdir()):
        files.remove_empty_folder(folder)
    return Result(data={"removed": str(folder)}, notes=(f"removed {folder}",))


def _folder(environ: Mapping[str, str]) -> Path:
    """Return where Jupyter looks for a user's kernels."""
    data = environ.get("JUPYTER_DATA_DIR") or os.path.join(
        environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME", "~"), ".local", "share"), "jupyter"
    )
    return Path(os.path.expanduser(data), "kernels")


def _kernels(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    folder = _folder(environ)
    for kernel in sorted(folder.iterdir()) if folder.is_dir() else ():
        overlay = _overlay_of(kernel)
        if overlay is not None:
            yield kernel, overlay


def _overlay_of(folder: Path) -> str | None:
    """Read whose kernel it is; None if it is not one of this tool's."""
    try:
        data: dict[str, Any] = json.loads(files.read_bytes(folder / "kernel.json", MAX_BYTES))
        return str(data["metadata"][OURS]["overlay"])
    except (FileNotFoundError, BadInput, ValueError, KeyError, TypeError, RecursionError):
        return None

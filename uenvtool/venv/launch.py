"""Starts a command, a shell or a Jupyter kernel in an overlay, and loads the overlay's base first.

A kernel is a directory with a kernel.json in Jupyter's data directory
(https://jupyter-client.readthedocs.io/en/stable/kernels.html). uenvtool never replaces kernels that another tool made.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files, processes, quoting
from uenvtool.core.errors import AnswerIsNo, BadInput, ToolFailed, ToolMissing
from uenvtool.core.limits import limited
from uenvtool.core.result import Result
from uenvtool.venv import howto
from uenvtool.venv.base import UENV, is_loaded, loading_command
from uenvtool.venv.info import described

MAX_BYTES = 1_000_000
OURS = "uenvtool"
ACTIVATED = 'source "$0/bin/activate" && exec "$@"'


def _arguments(path: Path, command: Sequence[str], *, from_anywhere: bool = False) -> list[str]:
    # from_anywhere: the arguments themselves check whether the base is loaded, and load it if it is not.
    data = described(path)
    base, is_packed = data["base"], not path.is_dir()
    directory = str(data["mount"]) if is_packed else str(path.absolute())
    is_here = data.get("base_is_here", True)
    if is_here and not from_anywhere and os.path.isfile(os.path.join(directory, "bin", "activate")):
        loader: list[str] = []
    elif is_packed:
        loader = _loader_of_image(path, data)
        if not loader:
            hint = f"start that container and mount the image at {directory}"
            raise AnswerIsNo(f"the base of {path} is a container whose name is unknown", hint=hint)
    else:
        loader = loading_command(base, directory)
        if not loader and not is_here:
            load = quoting.sh_again(str(base.get("load") or ""))
            advice = f"recreate the overlay with another Python: `uenvtool venv {path} --base PYTHON`"
            hint = f"load the base first: {load}" if load else advice
            raise AnswerIsNo(f"{path}: the base was not found: {base.get('python') or base.get('name')}", hint=hint)
    activated = ["bash", "-c", ACTIVATED, directory, *command]
    if not loader or not from_anywhere:
        return [*loader, *activated]
    return ["bash", "-c", f'{is_loaded(base)} || exec {shlex.join(loader)} "$@"; exec "$@"', "bash", *activated]


def _loader_of_image(path: Path, data: Mapping[str, Any]) -> list[str]:
    base, image = data["base"], path.absolute()
    if base.get("in_container"):
        uses = howto.uses(image, data["name"] or "", data["mount"] or "", base)
        line = next((use["text"] for use in uses if use["runtime"] == "apptainer"), "")
        return shlex.split(line)[:-2]  # its last two arguments are the command
    images, views = str(image), f"{data['name']}:{howto.VIEW}"
    if base.get("kind") == UENV and base.get("image"):
        images, views = f"{base['image']},{images}", f"{base['view']},{views}"
    return ["uenv", "run", images, f"--view={views}", "--"]


def run_in_overlay(path: Path, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Replace this process with a command, or else with the user's shell, in an overlay on its base.

    Raises BadInput if the path is not an overlay, AnswerIsNo if its base is not loaded and no program can load it, and
    ToolMissing if the program that loads the base is not on PATH.
    """
    arguments = _arguments(path, list(command) or [environ.get("SHELL") or "bash"])
    if shutil.which(arguments[0], path=environ.get("PATH")) is None:
        message = f"the program {arguments[0]}, which loads the base of {path}, is not on PATH"
        raise ToolMissing(message, hint="load the base first")
    processes.become(arguments)


def _directory_name(name: str) -> str:
    # Jupyter allows ASCII letters, digits and . _ - in the name of a kernel's directory.
    directory_name = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip(".-")
    if not directory_name or not name.isprintable():
        hint = "use at least one ASCII letter or digit: the kernel's directory is named after it"
        raise BadInput(f"{name!r} is not a valid kernel name", hint=hint)
    return directory_name


def add_kernel(path: Path, name: str | None, environ: Mapping[str, str]) -> Result:
    """Write a Jupyter kernel that starts an overlay.

    name: the name that Jupyter shows, by default the overlay's name. Raises BadInput if the name is not valid or
    another tool made a kernel with this name, and ToolFailed if the overlay's Python does not start or lacks ipykernel.
    """
    name = name or path.absolute().name.removesuffix(".squashfs").lstrip(".")
    directory = _kernels_directory(environ) / _directory_name(name)
    if directory.exists() and _overlay_of(directory) is None:
        hint = "choose another name with --name"
        raise BadInput(f"another tool made the kernel '{name}' in {directory}", hint=hint)
    completed = processes.run(_arguments(path, ["python", "-c", "import ipykernel"]), env=environ)
    if completed.code != 0:
        lacks_ipykernel = "ipykernel" in completed.reason
        install = f"install it with `uenvtool venv {path} ipykernel`"
        hint = install if lacks_ipykernel else "check that the overlay's base can be loaded on this machine"
        raise ToolFailed(f"{path} cannot start a kernel: {completed.reason}", hint=hint)
    kernel = {
        "argv": _arguments(path, ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], from_anywhere=True),
        "display_name": name,
        "language": "python",
        "interrupt_mode": "message",  # the program that loads the base may not forward signals
        "metadata": {"debugger": True, OURS: {"overlay": str(path.absolute())}},
    }
    files.write(directory / "kernel.json", json.dumps(kernel, indent=2) + "\n")
    remove = f"jupyter kernelspec remove {directory.name}"
    note = f"reload Jupyter's page to see the kernel {name!r}; remove it with `{remove}`"
    return Result(text=str(directory), data={"name": name, "path": str(directory), **kernel}, notes=(note,))


def _kernels_directory(environ: Mapping[str, str]) -> Path:
    data = environ.get("JUPYTER_DATA_DIR") or os.path.join(
        environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME", "~"), ".local", "share"), "jupyter"
    )
    return Path(os.path.expanduser(data), "kernels")


def _overlay_of(directory: Path) -> str | None:
    path = directory / "kernel.json"
    try:
        with limited(str(path)):
            return str(json.loads(files.read_bytes(path, MAX_BYTES))["metadata"][OURS]["overlay"])
    except (FileNotFoundError, BadInput, ValueError, KeyError, TypeError):
        return None

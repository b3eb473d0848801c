"""Opens an overlay from outside of its base: for a command, a shell, or a kernel of Jupyter.

A kernel is a folder with a kernel.json in Jupyter's data folder
(https://jupyter-client.readthedocs.io/en/stable/kernels.html). Another tool's is never replaced.
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
from uenvtool.core.result import Result
from uenvtool.venv import howto
from uenvtool.venv.discovery import UENV, is_loaded, loading_words
from uenvtool.venv.info import described

MAX_BYTES = 1_000_000
OURS = "uenvtool"
LAUNCHER = "ipykernel_launcher"
ACTIVATED = 'source "$0/bin/activate" && exec "$@"'


def opening_words(path: Path, command: Sequence[str], *, from_anywhere: bool = False) -> list[str]:
    """Return the words that run a command in a loose or packed overlay, activated, on its base.

    What is loaded already is not loaded again; from_anywhere: these words find that out where they will run.
    Raises BadInput if there is no overlay, AnswerIsNo if its base is not here and no program loads it.
    """
    data = described(path)
    base, is_packed = data["base"], not path.is_dir()
    folder = str(data["mount"]) if is_packed else str(path.absolute())
    is_here = data.get("base_is_here", True)
    if is_here and not from_anywhere and os.path.isfile(os.path.join(folder, "bin", "activate")):
        words: list[str] = []
    elif is_packed:
        words = _packed_words(path, data)
        if not words:
            hint = f"start that container with the image mounted at {folder}"
            raise AnswerIsNo(f"{path} lies on a container whose name is not known", hint=hint)
    else:
        words = loading_words(base, folder)
        if not words and not is_here:
            load = quoting.sh_again(str(base.get("load") or ""))
            again = f"make it again on a Python that is here: `uenvtool venv {path} --base PYTHON`"
            hint = f"load it first: {load}" if load else again
            raise AnswerIsNo(f"{path}: its base is not here: {base.get('python') or base.get('name')}", hint=hint)
    inside = ["bash", "-c", ACTIVATED, folder, *command]
    if not words or not from_anywhere:
        return [*words, *inside]
    return ["bash", "-c", f'{is_loaded(base)} || exec {shlex.join(words)} "$@"; exec "$@"', "bash", *inside]


def _packed_words(path: Path, data: Mapping[str, Any]) -> list[str]:
    base, image = data["base"], path.absolute()
    if base.get("in_container"):
        uses = howto.lines(image, data["name"] or "", data["mount"] or "", base)
        line = next((use.text for use in uses if use.runtime == "apptainer"), "")
        return shlex.split(line)[:-2]  # its last words are what is run
    images = [base["image"], str(image)] if base.get("kind") == UENV and base.get("image") else [str(image)]
    views = [base["view"], f"{data['name']}:{howto.VIEW}"] if len(images) > 1 else [f"{data['name']}:{howto.VIEW}"]
    return ["uenv", "run", ",".join(images), f"--view={','.join(views)}", "--"]


def run_there(path: Path, command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Become a command, or the user's shell, in an overlay on its base. Raises ToolMissing without the loader."""
    words = opening_words(path, list(command) or [environ.get("SHELL") or "bash"])
    if shutil.which(words[0], path=environ.get("PATH")) is None:
        raise ToolMissing(f"{words[0]} is not here, and {path} needs it to load its base", hint="load the base first")
    processes.become(words)


def _folder_name(name: str) -> str:
    """Return the name of a kernel's folder, which Jupyter allows ASCII letters, digits and . _ - in."""
    found = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip(".-")
    if not found or not name.isprintable():
        hint = "its folder is named after it, in ASCII: it needs a letter or a digit of these"
        raise BadInput(f"{name!r}: invalid name of a kernel", hint=hint)
    return found


def add_kernel(path: Path, name: str | None, environ: Mapping[str, str]) -> Result:
    """Write the kernel of an overlay; by default with the overlay's name. name: what Jupyter shows.

    Raises BadInput for a name that no folder of a kernel can be named after or that another tool has, ToolFailed if
    the overlay's Python does not start there or has no ipykernel.
    """
    name = name or path.absolute().name.removesuffix(".squashfs").lstrip(".")
    folder = _folder(environ) / _folder_name(name)
    if folder.exists() and _overlay_of(folder) is None:
        raise BadInput(f"another tool made the kernel {name}, {folder}", hint="choose another name with --name")
    ran = processes.run(opening_words(path, ["python", "-c", "import ipykernel"]), env=environ)
    if ran.code != 0:
        lacks = "ipykernel" in ran.reason
        hint = f"`uenvtool venv {path} ipykernel`" if lacks else "see that its base can be loaded here"
        raise ToolFailed(f"{path} starts no kernel: {ran.reason}", hint=hint)
    kernel = {
        "argv": opening_words(path, ["python", "-m", LAUNCHER, "-f", "{connection_file}"], from_anywhere=True),
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

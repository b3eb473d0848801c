"""Opens an overlay from outside of its base: the words that load the base and start one of the overlay's programs."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.core.session import in_container
from uenvtool.venv import howto
from uenvtool.venv.info import described
from uenvtool.venv.where import UENV, is_loaded, loading_words

ACTIVATED = 'source "$0/bin/activate" && exec "$@"'


def opening_words(
    path: Path, command: Sequence[str], environ: Mapping[str, str], *, from_anywhere: bool = False
) -> list[str]:
    """Return the words that run a command in a loose or packed overlay, activated, on its base.

    What is loaded already is not loaded again; from_anywhere: these words find that out where they will run.
    Raises BadInput if there is no overlay, or nobody knows how to load its base.
    """
    data = described(path)
    base, is_packed = data["base"], not path.is_dir()
    folder = str(data["mount"]) if is_packed else str(path.absolute())
    is_here = data.get("base_is_here", True) and (base.get("kind") == UENV or not base.get("in_container"))
    is_here = is_here or (bool(base.get("in_container")) and in_container(environ))
    if is_here and not from_anywhere and os.path.isfile(os.path.join(folder, "bin", "activate")):
        words: list[str] = []
    elif is_packed:
        words = _packed_words(path, data)
    else:
        words = loading_words(base, folder)
        if not words and not is_here:
            hint = f"`uenvtool show {path}` shows what it was made on"
            raise BadInput(f"{path}: its base is not here, and nobody knows how to load it", hint=hint)
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
    words = opening_words(path, list(command) or [environ.get("SHELL") or "bash"], environ)
    if shutil.which(words[0], path=environ.get("PATH")) is None:
        raise ToolMissing(f"{words[0]} is not here, and {path} needs it to load its base", hint="load the base first")
    processes.become(words)

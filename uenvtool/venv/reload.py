"""Runs this very command again inside a uenv, so that this is the base."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from uenvtool.core import processes
from uenvtool.core.errors import ToolMissing
from uenvtool.core.session import STARTED_BY
from uenvtool.venv.request import VenvRequest
from uenvtool.venv.where import LABEL

OPTIONS = ("--uenv", "--view")
"""The options that say where the command is run again; it does not have them there."""


def on_named_base(request: VenvRequest, environ: Mapping[str, str]) -> None:
    """Become this command in the uenv that is named; nothing if none is.

    Raises ToolMissing if no program is here that starts it.
    """
    if request.uenv is not None:
        _in_uenv(request.uenv, request.view, environ)


def _in_uenv(image: str, view: str, environ: Mapping[str, str]) -> NoReturn:
    """Become `uenv run IMAGE --view=VIEW -- <this command>`. Raises ToolMissing if this machine has no uenv client."""
    client = shutil.which("uenv", path=environ.get("PATH"))
    if client is None:
        hint = "run it where uenv is, or start in a container, or name a Python with --base PYTHON"
        raise ToolMissing(f"--uenv {image}: the uenv client is not here", hint=hint)
    image = os.path.abspath(image) if os.path.isfile(image) else image
    words = ["run", image, f"--view={view}", "--"]
    more = {LABEL: image, STARTED_BY: shlex.join(["uenv", *words])}
    processes.become([client, *words, *this_command(sys.argv)], {**environ, **more})


def this_command(words: Sequence[str]) -> list[str]:
    """Return the command line of this process without what is about the uenv.

    -E: inside of it, PYTHONPATH may name packages that are for another Python than this tool's.
    """
    program = ["-m", "uenvtool"] if os.path.basename(words[0]) == "__main__.py" else [words[0]]
    left: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            left += [word, *rest]
        elif word in OPTIONS:
            next(rest, None)
        elif not word.startswith(tuple(f"{name}=" for name in OPTIONS)):
            left.append(word)
    return [sys.executable, "-E", *program, *left]

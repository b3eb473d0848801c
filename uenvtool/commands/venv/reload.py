"""Runs this very command again inside a uenv, so that the uenv is the base."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from uenvtool import tools
from uenvtool.errors import ToolMissing
from uenvtool.overlay.where import LABEL

OPTIONS = ("--uenv", "--view")


def in_uenv(image: str, view: str, environ: Mapping[str, str]) -> NoReturn:
    """Become `uenv run IMAGE --view=VIEW -- <this command>`.

    Raises ToolMissing if this machine has no uenv client.
    """
    client = shutil.which("uenv", path=environ.get("PATH"))
    if client is None:
        raise ToolMissing(
            f"--uenv {image}: the uenv client is not here",
            hint="run it where uenv is, or start in a container, or name a Python with --base PYTHON",
        )
    tools.become([client, "run", image, f"--view={view}", "--", *this_command(sys.argv)], {**environ, LABEL: image})


def this_command(words: Sequence[str]) -> list[str]:
    """The command line of this process without what is about the uenv.

    -E: inside the uenv, PYTHONPATH may name packages that are for another Python than this tool's.
    """
    program = ["-m", "uenvtool"] if os.path.basename(words[0]) == "__main__.py" else [words[0]]
    return [sys.executable, "-E", *program, *_without_options(words[1:])]


def _without_options(words: Sequence[str]) -> list[str]:
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*left, word, *rest]
        if word in OPTIONS:
            next(rest, None)
        elif not word.startswith(tuple(f"{name}=" for name in OPTIONS)):
            left.append(word)
    return left

"""Runs this very command again inside a uenv or a container, so that this is the base."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from uenvtool import tools
from uenvtool.errors import BadInput, Position, ToolMissing
from uenvtool.overlay.where import LABEL

OPTIONS = ("--uenv", "--view", "--edf")
"""The options that say where the command is run again; it does not have them there."""


def on_named_base(uenv: str | None, view: str, edf: str, target: Path, environ: Mapping[str, str]) -> None:
    """Become this command in the uenv, or in a container of the EDF, that is named; nothing if none is.

    target: the overlay. Raises ToolMissing and BadInput as `in_uenv` and `in_container` do.
    """
    if uenv is not None:
        in_uenv(uenv, view, environ)
    if edf:
        in_container(edf, target, environ)


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


def in_container(edf: str, target: Path, environ: Mapping[str, str]) -> NoReturn:
    """Become `srun --environment=EDF -- <this command>`, in this folder.

    edf: the path of an environment definition file, or its name on the search path of the Container Engine.
    target: the overlay. Raises ToolMissing if srun is not here, BadInput if the container will not have the folders
    that the command needs: this program with its own Python, the overlay, the current folder.
    """
    starter = shutil.which("srun", path=environ.get("PATH"))
    if starter is None:
        raise ToolMissing(f"--edf {edf}: srun is not here", hint="run it on a login node of the cluster")
    named_by_path = "/" in edf or edf.endswith(".toml")
    if named_by_path:
        refuse_unmounted(Path(edf), _needed(target), environ)
    words = [starter, f"--environment={os.path.abspath(edf) if named_by_path else edf}", "--nodes=1", "--ntasks=1"]
    tools.become([*words, "env", f"--chdir={os.getcwd()}", *this_command(sys.argv)])


def refuse_unmounted(edf: Path, paths: Sequence[Path], environ: Mapping[str, str]) -> None:
    """Raise BadInput if a container of an EDF does not have one of these folders of the host at its own place.

    An EDF that builds on another one is not looked at: the other one may mount them.
    """
    import tomlkit

    try:
        data = tomlkit.parse(edf.read_text(encoding="utf-8")).unwrap()
    except (OSError, ValueError, tomlkit.exceptions.ParseError) as error:
        raise BadInput(
            f"this EDF cannot be read: {error}", Position(str(edf)), "name the file that srun takes"
        ) from error
    if "base_environment" in data:
        return
    places = list(_at_their_own_place([str(mount) for mount in data.get("mounts", ())], environ))
    for path in paths:
        if not any(path.is_relative_to(place) for place in places):
            hint = f'add "{path}" to its mounts, or work in a folder that is mounted; docs/overlay.md says more'
            raise BadInput(f"the container will not have {path}", Position(str(edf)), hint)


def _needed(target: Path) -> list[Path]:
    """The folders that this command needs where it is run again."""
    own = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]]
    return [path.resolve() for path in (*own, Path.cwd(), target.absolute().parent)]


def _at_their_own_place(mounts: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """The folders of the host that are mounted at the same path; variables stand in braces."""
    for mount in mounts:
        source, *rest = re.sub(r"\$\{(\w+)\}", lambda found: environ.get(found[1], found[0]), mount).split(":")
        if not rest or rest[0] == source:
            yield source


def this_command(words: Sequence[str]) -> list[str]:
    """The command line of this process without what is about the uenv or container.

    -E: inside of it, PYTHONPATH may name packages that are for another Python than this tool's.
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

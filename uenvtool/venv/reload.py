"""Runs this very command again inside a uenv or a container, so that this is the base."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from uenvtool.core import tools
from uenvtool.core.errors import BadInput, Position, ToolMissing
from uenvtool.core.files import read_bytes
from uenvtool.core.session import STARTED_BY
from uenvtool.venv.request import VenvRequest
from uenvtool.venv.where import LABEL, VARIABLE

OPTIONS = ("--uenv", "--view", "--edf")
"""The options that say where the command is run again; it does not have them there."""
MAX_BYTES = 1_000_000


def on_named_base(request: VenvRequest, environ: Mapping[str, str]) -> None:
    """Become this command in the uenv, or in a container of the EDF, that is named; nothing if none is.

    Raises ToolMissing if no program is here that starts it, BadInput if the container will not have the folders that
    the command needs: this program with its own Python, the overlay, the current folder.
    """
    if request.uenv is not None:
        _in_uenv(request.uenv, request.view, environ)
    if request.edf:
        _in_container(request.edf, Path(request.path), environ)


def _in_uenv(image: str, view: str, environ: Mapping[str, str]) -> NoReturn:
    """Become `uenv run IMAGE --view=VIEW -- <this command>`. Raises ToolMissing if this machine has no uenv client."""
    client = shutil.which("uenv", path=environ.get("PATH"))
    if client is None:
        hint = "run it where uenv is, or start in a container, or name a Python with --base PYTHON"
        raise ToolMissing(f"--uenv {image}: the uenv client is not here", hint=hint)
    image = os.path.abspath(image) if os.path.isfile(image) else image
    words = ["run", image, f"--view={view}", "--"]
    more = {LABEL: image, STARTED_BY: shlex.join(["uenv", *words])}
    tools.become([client, *words, *this_command(sys.argv)], {**environ, **more})


def _in_container(edf: str, target: Path, environ: Mapping[str, str]) -> NoReturn:
    """Become `srun --environment=EDF ... <this command>`. Raises ToolMissing without srun."""
    srun = shutil.which("srun", path=environ.get("PATH"))
    if srun is None:
        raise ToolMissing(f"--edf {edf}: srun is not here", hint="run it on a login node of the cluster")
    if "/" in edf or edf.endswith(".toml"):  # else a name that the Container Engine looks for
        own = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1])  # this program and its Python
        paths = [path.resolve() for path in (*own, Path.cwd(), target.absolute().parent)]
        refuse_unmounted(Path(edf), paths, environ)
        edf = os.path.abspath(edf)
    option = f"--environment={edf}"
    started_by = f"{STARTED_BY}={shlex.join(['srun', option])}"
    words = [option, "--nodes=1", "--ntasks=1", "env", f"--chdir={os.getcwd()}", started_by]
    tools.become([srun, *words, *this_command(sys.argv)])


def refuse_unmounted(edf: Path, paths: Sequence[Path], environ: Mapping[str, str]) -> None:
    """Raise BadInput if a container of an EDF does not have one of these folders of the host at its own place.

    An EDF that builds on another one is left to srun, which reads both. The keys are those of the Container Engine
    (https://docs.cscs.ch/software/container-engine/edf/).
    """
    import tomlkit

    try:
        text = read_bytes(edf, MAX_BYTES).decode("utf-8")
        data: dict[str, Any] = tomlkit.parse(text).unwrap()
    except (OSError, ValueError, tomlkit.exceptions.ParseError) as error:
        why, hint = getattr(error, "strerror", None) or error, "name the file that srun takes"
        raise BadInput(f"this EDF cannot be read: {why}", Position(str(edf)), hint) from error
    before, found, _ = text.partition("mounts")
    position = Position(str(edf), before.count("\n") + 1, len(before) - before.rfind("\n")) if found else None
    mounts = data.get("mounts", [])
    if not isinstance(mounts, list):
        raise BadInput("mounts must be a list", position, "see what `uenvtool container` writes")
    filled = [VARIABLE.sub(lambda name: environ.get(name[1], name[0]), str(mount)).split(":") for mount in mounts]
    places = [source for source, *rest in filled if not rest or rest[0] == source]
    for path in () if "base_environment" in data else paths:
        if not any(path.is_relative_to(place) for place in places):
            hint = f'add "{path}" to its mounts, or work in a folder that is mounted; docs/containers.md says more'
            raise BadInput(f"the container will not have {path}", position or Position(str(edf)), hint)


def this_command(words: Sequence[str]) -> list[str]:
    """Return the command line of this process without what is about the uenv or container.

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

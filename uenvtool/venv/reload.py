"""Runs this very command again inside a uenv or a container, so that this is the base."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from uenvtool.core import tools
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.venv.edf import Edf, at_their_own_place, hides_the_containers, podman_words, read_edf
from uenvtool.venv.where import LABEL, STARTED_BY

OPTIONS, FLAG = ("--uenv", "--view", "--edf"), "--podman"
"""The options that say where the command is run again, and one without a value; it does not have them there."""


def on_named_base(
    uenv: str | None, view: str, edf: str, target: Path, *, podman: bool, environ: Mapping[str, str]
) -> None:
    """Become this command in the uenv, or in a container of the EDF, that is named; nothing if none is.

    target: the overlay. podman: start the container with it. Raises ToolMissing and BadInput as `in_uenv` and
    `in_container` do.
    """
    if podman and not edf:
        raise BadInput("--podman starts the container of an EDF", hint="name the EDF: --edf FILE")
    if uenv is not None:
        in_uenv(uenv, view, environ)
    if edf:
        in_container(edf, target, podman=podman, environ=environ)


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
    words = ["run", image, f"--view={view}", "--"]
    more = {LABEL: image, STARTED_BY: shlex.join(["uenv", *words])}
    tools.become([client, *words, *this_command(sys.argv)], {**environ, **more})


def in_container(edf: str, target: Path, *, podman: bool, environ: Mapping[str, str]) -> NoReturn:
    """Become this command in a container of an EDF, in this folder: by srun, or by podman where that is what is here.

    edf: the path of an environment definition file, or its name on the search path of the Container Engine.
    target: the overlay. podman: with podman, also where srun is. Raises ToolMissing if none of them is here, BadInput
    if the container will not have the folders that the command needs: this program with its own Python, the overlay,
    the current folder; and for what podman cannot run.
    """
    names = ("podman",) if podman else ("srun", "podman")
    found = {name: program for name in names if (program := shutil.which(name, path=environ.get("PATH")))}
    if not found:
        hint = "run it on a login node of the cluster, or install podman: https://podman.io/docs/installation"
        raise ToolMissing(f"--edf {edf}: {' and '.join(names)} {_is_missing(names)} not here", hint=hint)
    starter, program = next(iter(found.items()))
    tools.become(
        _by_srun(program, edf, target, environ) if starter == "srun" else _by_podman(program, edf, target, environ)
    )


def _is_missing(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _by_srun(program: str, edf: str, target: Path, environ: Mapping[str, str]) -> list[str]:
    named_by_path = "/" in edf or edf.endswith(".toml")
    if named_by_path:
        refuse_unmounted(read_edf(edf, environ), _needed(target), environ)
    words = [f"--environment={os.path.abspath(edf) if named_by_path else edf}", "--nodes=1", "--ntasks=1"]
    started_by = f"{STARTED_BY}={shlex.join(['srun', words[0]])}"
    return [program, *words, "env", f"--chdir={os.getcwd()}", started_by, *this_command(sys.argv)]


def _by_podman(program: str, edf: str, target: Path, environ: Mapping[str, str]) -> list[str]:
    read = read_edf(edf, environ)
    mountable = [path for path in _own_folders() if not hides_the_containers(path)]
    refuse_unmounted(read, [path for path in _needed(target) if path not in mountable], environ)
    run, *words = podman_words(read, mountable, os.getcwd(), environ)
    started_by = f"--env={STARTED_BY}={shlex.join(['podman', *podman_words(read, [], os.getcwd(), environ)])}"
    return [program, run, started_by, *words, *this_command(sys.argv)]


def refuse_unmounted(edf: Edf, paths: Sequence[Path], environ: Mapping[str, str]) -> None:
    """Raise BadInput if a container of an EDF does not have one of these folders of the host at its own place.

    An EDF that builds on one that is not here is not looked at: the other one may mount them.
    """
    places = at_their_own_place(edf.mounts, environ)
    for path in paths if edf.is_whole else ():
        if not any(path.is_relative_to(place) for place in places):
            hint = f'add "{path}" to its mounts, or work in a folder that is mounted; docs/containers.md says more'
            raise BadInput(f"the container will not have {path}", edf.position("mounts"), hint)


def _needed(target: Path) -> list[Path]:
    """The folders that this command needs where it is run again."""
    return [*_own_folders(), Path.cwd().resolve(), target.absolute().parent.resolve()]


def _own_folders() -> list[Path]:
    """The folders of this program and of the Python that runs it."""
    return [path.resolve() for path in (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1])]


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
        elif word != FLAG and not word.startswith(tuple(f"{name}=" for name in OPTIONS)):
            left.append(word)
    return left

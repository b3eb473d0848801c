"""Runs this very command again inside a uenv or a container, so that this is the base."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from uenvtool.core import tools
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.venv.edf import Edf, at_their_own_place, hides_the_containers, podman_words, read_edf
from uenvtool.venv.request import VenvRequest
from uenvtool.venv.where import LABEL, STARTED_BY

OPTIONS, FLAG = ("--uenv", "--view", "--edf"), "--podman"
"""The options that say where the command is run again, and one without a value; it does not have them there."""


def on_named_base(request: VenvRequest, environ: Mapping[str, str]) -> None:
    """Become this command in the uenv, or in a container of the EDF, that is named; nothing if none is.

    A container is started by srun, or by podman where that is what is here. Raises ToolMissing if no program is here
    that starts it, BadInput if the container will not have the folders that the command needs: this program with its
    own Python, the overlay, the current folder; and for what podman cannot run.
    """
    if request.podman and not request.edf:
        raise BadInput("--podman starts the container of an EDF", hint="name the EDF: --edf FILE")
    if request.uenv is not None:
        _in_uenv(request.uenv, request.view, environ)
    if request.edf:
        names = ("podman",) if request.podman else ("srun", "podman")
        programs = {name: shutil.which(name, path=environ.get("PATH")) for name in names}
        starter = next(filter(programs.get, names), None)
        if starter is None:
            hint = "run it on a login node of the cluster, or install podman: https://podman.io/docs/installation"
            missing = " and ".join(names) + (" are" if len(names) > 1 else " is")
            raise ToolMissing(f"--edf {request.edf}: {missing} not here", hint=hint)
        words = _by_srun if starter == "srun" else _by_podman
        tools.become([programs[starter] or starter, *words(request.edf, Path(request.path), environ)])


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


def _by_srun(edf: str, target: Path, environ: Mapping[str, str]) -> list[str]:
    named_by_path = "/" in edf or edf.endswith(".toml")
    if named_by_path:
        refuse_unmounted(read_edf(edf, environ), [*_own_folders(), *_worked_in(target)], environ)
    words = [f"--environment={os.path.abspath(edf) if named_by_path else edf}", "--nodes=1", "--ntasks=1"]
    started_by = f"{STARTED_BY}={shlex.join(['srun', words[0]])}"
    return [*words, "env", f"--chdir={os.getcwd()}", started_by, *this_command(sys.argv)]


def _by_podman(edf: str, target: Path, environ: Mapping[str, str]) -> list[str]:
    read, own = read_edf(edf, environ), list(_own_folders())
    mountable = [path for path in own if not hides_the_containers(path)]
    needed = [*(path for path in own if path not in mountable), *_worked_in(target)]
    refuse_unmounted(read, needed, environ)
    run, *words = podman_words(read, mountable, os.getcwd(), environ)
    started_by = f"--env={STARTED_BY}={shlex.join(['podman', *podman_words(read, [], os.getcwd(), environ)])}"
    return [run, started_by, *words, *this_command(sys.argv)]


def refuse_unmounted(edf: Edf, paths: Sequence[Path], environ: Mapping[str, str]) -> None:
    """Raise BadInput if a container of an EDF does not have one of these folders of the host at its own place.

    An EDF that builds on one that is not here is not looked at: the other one may mount them.
    """
    places = at_their_own_place(edf.mounts, environ)
    for path in paths if edf.is_whole else ():
        if not any(path.is_relative_to(place) for place in places):
            hint = f'add "{path}" to its mounts, or work in a folder that is mounted; docs/containers.md says more'
            raise BadInput(f"the container will not have {path}", edf.position("mounts"), hint)


def _worked_in(target: Path) -> list[Path]:
    return [Path.cwd().resolve(), target.absolute().parent.resolve()]


def _own_folders() -> Iterator[Path]:
    """List the folders of this program and of the Python that runs it."""
    yield from (path.resolve() for path in (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]))


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
        elif word != FLAG and not word.startswith(tuple(f"{name}=" for name in OPTIONS)):
            left.append(word)
    return [sys.executable, "-E", *program, *left]

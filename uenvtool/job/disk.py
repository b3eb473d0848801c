"""Reads the facts about a job's files and this shell, on which `decide.py` bases its decisions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.check.edf import netstack_of, read_edf
from uenvtool.core.files import read_named
from uenvtool.core.limits import limited
from uenvtool.core.session import loaded_views
from uenvtool.core.words import is_within
from uenvtool.job.request import JobRequest

if TYPE_CHECKING:
    from uenvtool.venv.info import Environment

MAX_PROGRAM = 1_000_000
"""The largest size of a script or training program, in bytes."""
EDF = ".toml"
"""The suffix of EDF names."""
SUBMITTED_IN = "${PWD}"
"""The directory where srun is called, as an EDF spells it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedEdf:
    """The fields of an EDF that concern a job.

    error: the syntax error if it is not valid TOML. is_whole: whether it extends no other EDF. netstack: the result of
    `netstack_of`.
    """

    path: str
    error: str
    image: str
    mounts: tuple[str, ...]
    workdir: str
    is_whole: bool
    netstack: str | None

    def shows(self, path: str, folder: str) -> bool:
        """Return whether a path in the container is, or may be, mounted from the host. folder: where srun is called."""
        if not self.is_whole:
            return True
        places = [_destination(mount, folder) for mount in self.mounts]
        return any("$" in place or is_within(path, place) for place in places)


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """The files of a job. Relative paths start at the directory in which the user runs the command.

    environment: the overlay or virtual environment of --venv, or None. loaded: the uenv of this shell, or empty. edf:
    the EDF that is named as the image.
    """

    environment: Environment | None = None
    loaded: str = ""
    edf: NamedEdf | None = None

    @property
    def active(self) -> str:
        """Return the active virtual or conda environment if it contains torch, or an empty string otherwise."""
        active = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
        return next((path for path in active if path and any(Path(path).glob("lib/python3*/site-packages/torch"))), "")

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of this machine."""
        from uenvtool.knowledge.detect import gpu_count  # only jobs on this machine need it

        return gpu_count()


def read_disk(request: JobRequest) -> Disk:
    """Return the facts about the files of a request. Raises BadInput if --venv names no environment."""
    environment = None
    if request.venv and os.path.lexists(request.venv):
        from uenvtool.venv.info import read_environment  # imports most of venv

        environment = read_environment(Path(request.venv))
    is_edf = request.image.endswith(EDF) and os.path.isfile(request.image)
    return Disk(
        environment=environment,
        edf=_named_edf(request.image, text_of(request.image)) if is_edf else None,
        loaded=next((view.image for view in loaded_views(os.environ) if view.image), ""),
    )


def text_of(path: str) -> str:
    """Return the text of a file, or an empty string if it does not exist. Raises BadInput if it cannot be read."""
    if not os.path.isfile(path):
        return ""
    return read_named(Path(path), MAX_PROGRAM).decode("utf-8", "replace")


def _named_edf(path: str, text: str) -> NamedEdf:
    with limited(path):
        source = read_edf(text, path)
    texts = {name: [part.text for part in source.of("entry", name)] for name in ("image", "mounts", "workdir")}
    return NamedEdf(
        path=path,
        error=next((part.text for part in source.of("syntax")), ""),
        image="".join(texts["image"][:1]),
        mounts=tuple(texts["mounts"]),
        workdir="".join(texts["workdir"][:1]),
        is_whole=not any(source.of("entry", "base_environment")),
        netstack=netstack_of(source),
    )


def _destination(mount: str, folder: str) -> str:
    # A mount is written as `SOURCE:DESTINATION:FLAGS` or only as SOURCE.
    source, _, rest = mount.partition(":")
    return os.path.expandvars((rest.partition(":")[0] or source).replace(SUBMITTED_IN, folder))

"""What the disk and this shell say of a request for a job: read here, decided in `decide.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uenvtool.core.files import is_file, read_named
from uenvtool.core.session import in_container, loaded_views
from uenvtool.job.named_edf import EDF, NamedEdf, read_named_edf
from uenvtool.job.request import JobRequest

if TYPE_CHECKING:
    from uenvtool.venv.foreign_venv import OtherVenv

MAX_PROGRAM = 1_000_000
"""Bytes: a script or training program is not longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """The files of a job, looked at from the folder where the command is typed.

    overlay: what is known of the overlay that is named; empty without one. other: it is a virtual environment of
    another tool. is_packed: it is an image. loaded: the uenv of this shell, or empty. edf: the one that is named as
    the image.
    """

    overlay: Mapping[str, Any]
    other: OtherVenv | None = None
    is_packed: bool = False
    loaded: str = ""
    edf: NamedEdf | None = None

    @property
    def folder(self) -> str:
        """Return the path of the current folder."""
        return os.getcwd()

    @property
    def in_container(self) -> bool:
        """Tell if this is a container."""
        return in_container(os.environ)

    @property
    def active(self) -> str:
        """Return the virtual environment of this shell, or conda's, if it has torch; empty if it has none."""
        named = [os.environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
        return next((one for one in named if one and any(Path(one).glob("lib/python3*/site-packages/torch"))), "")

    @property
    def gpus(self) -> int:
        """Return how many GPUs this machine has."""
        from uenvtool.knowledge.detect import gpu_count  # only jobs on this machine need it

        return gpu_count()

    @property
    def home(self) -> str:
        """Return the path of the user's home."""
        return os.path.expanduser("~")

    def is_image(self, path: str) -> bool:
        """Tell if a path can be an image: a file, or a folder, as of conda and Apptainer."""
        return is_file(Path(path)) or os.path.isdir(path)

    def exists(self, path: str) -> bool:
        """Tell if there is such a file or folder."""
        return os.path.exists(path)

    def text(self, path: str) -> str:
        """Return the text of a file; empty if there is none. Raises BadInput for one that cannot be read."""
        return _text(path) if os.path.isfile(path) else ""


def read_disk(request: JobRequest) -> Disk:
    """Return what there is. Raises BadInput for an overlay that is none."""
    overlay: dict[str, Any] = {}
    other = None
    if request.venv and os.path.lexists(request.venv):
        from uenvtool.venv.foreign_venv import other_venv
        from uenvtool.venv.info import described  # loads the rest of venv

        path = Path(request.venv)
        other = other_venv(path)
        if other is None or path.is_file():
            overlay = described(path)
        if other is not None:
            overlay |= {"base": {}, "packages": [{"name": name} for name in sorted(other.packages)]}
    is_edf = request.image.endswith(EDF) and os.path.isfile(request.image)
    return Disk(
        overlay=overlay,
        other=other,
        is_packed=bool(request.venv) and os.path.isfile(request.venv or ""),
        edf=read_named_edf(request.image, _text(request.image)) if is_edf else None,
        loaded=next((view.image for view in loaded_views(os.environ) if view.image), ""),
    )


def _text(path: str) -> str:
    return read_named(Path(path), MAX_PROGRAM).decode("utf-8", "replace")

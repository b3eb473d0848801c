"""Makes a packed overlay loose again; nothing that the image holds is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result


def unpack(image: Path, folder: Path | None, base: str | None, environ: Mapping[str, str]) -> Result:
    """Unpack an image into a new folder, by default one with the image's name beside the current files.

    base: the Python that makes the bytecode; None takes that of the loaded base. Without one of the
    overlay's version there is no bytecode, and Python makes it at the first import.

    Raises BadInput if the folder exists or the image is none, ToolMissing without unsquashfs, ToolFailed
    if the disk or unsquashfs fails; nothing is left then.
    """
    from uenvtool.venv.packed import unpack_overlay

    target = folder or Path(image.stem)
    if os.path.lexists(target):
        raise BadInput(f"{target} exists", hint="name another folder: uenvtool venv unpack IMAGE PATH")
    compiled = unpack_overlay(image, target, _python(base, environ))
    notes = () if compiled else ("no Python of its version is loaded here, so that it has no bytecode yet",)
    return Result(text=str(target), data={"path": str(target), "bytecode": compiled}, notes=notes)


def _python(base: str | None, environ: Mapping[str, str]) -> Path | None:
    """The Python that the user names, or that is loaded; never one that an image names."""
    from uenvtool.venv.where import find

    try:
        return Path(find(base, environ).python)
    except BadInput:
        if base is not None:
            raise
        return None

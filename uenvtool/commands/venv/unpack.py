"""Makes a packed overlay loose again."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.errors import BadInput
from uenvtool.overlay.packed import unpack_overlay
from uenvtool.result import Result


def unpack(image: Path, folder: Path | None) -> Result:
    """Unpack an image into a folder that is not there yet; default: the image's name without its ending.

    Raises BadInput if the folder is there already or the file is not an image.
    """
    target = folder or Path(image.stem)
    if os.path.lexists(target):
        raise BadInput(f"{target} is there already", hint="name another folder: uenvtool venv unpack IMAGE PATH")
    unpack_overlay(image, target)
    return Result(data={"path": str(target)}, text=str(target))

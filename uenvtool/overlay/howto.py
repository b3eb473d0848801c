"""The exact lines that use a packed overlay: uenv, Slurm, a container's EDF, Apptainer."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass

from uenvtool import quoting
from uenvtool.overlay.packed import VIEW

OF_UENV = ("uenv", "slurm")
"""The lines that are of no use where the base is a container."""


@dataclass(frozen=True, slots=True)
class Line:
    """What the line is for, the line, and why it cannot be used as it stands, if so."""

    use: str
    text: str
    caveat: str = ""

    def data(self) -> dict[str, str]:
        return {"use": self.use, "text": self.text, "caveat": self.caveat}


def lines(image: str, name: str, mount: str, base: str = "", view: str = "", base_image: str = "") -> list[Line]:
    """How to use an image; `base` is what is loaded beside it (`pytorch/v2.6.0`), `view` its view.

    uenv takes an image as a label or as a path that starts with `/` or `.` and has only letters,
    digits and `_ . / -`; several are separated by commas (uenv 9.2, src/uenv/parse.cpp).
    """
    path = os.path.abspath(image)
    first = base_image or base
    images = f"{first},{path}" if first else path
    own = f"{name}:{VIEW}"
    views = f"{view},{own}" if first and view else own
    odd = re.search(r"[^A-Za-z0-9_./-]", path)
    caveat = f"uenv cannot take a path with {odd[0]!r} in it: rename the image" if odd else ""
    options = f"--uenv={shlex.quote(images)}", f"--view={shlex.quote(views)}"
    return [
        Line("uenv", f"uenv start {shlex.quote(images)} --view={shlex.quote(views)}", caveat),
        Line("slurm", f"#SBATCH {options[0]}\n#SBATCH {options[1]}", caveat),
        Line("edf", f"mounts = [{quoting.toml(f'{path}:{mount}:sqsh')}]", _mount_caveat(path)),
        Line("apptainer", f"-B {shlex.quote(f'{path}:{mount}:image-src=/')}", _mount_caveat(path)),
    ]


def _mount_caveat(path: str) -> str:
    odd = re.search(r"[:,$\n]", path)
    return f"a mount cannot have {odd[0]!r} in its path: rename the image" if odd else ""

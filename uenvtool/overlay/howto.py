"""The exact lines that use a packed overlay where it works: with the uenv or in the container that it lies on."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool import quoting
from uenvtool.overlay.packed import VIEW


@dataclass(frozen=True, slots=True)
class Line:
    """What the lines are for, the lines, and what to know before they are used."""

    use: str
    text: str
    caveat: str = ""

    def data(self) -> dict[str, str]:
        """As data for --json."""
        return {"use": self.use, "text": self.text, "caveat": self.caveat}


def lines(image: Path, name: str, mount: str, base: Mapping[str, Any]) -> Iterator[Line]:
    """How to use an image. name: of the uenv that it is. base: what the overlay's record says of it.

    Each ends in what to run. A base in a container is nowhere else, and a uenv or a Python of the host is not in a
    container.
    """
    path, base_image = os.path.abspath(image), str(base.get("image") or "")
    if base.get("in_container"):
        yield from _of_container(path, mount, base_image)
    else:
        yield from _of_uenv(path, name, base_image, str(base.get("view") or ""))


def _of_uenv(path: str, name: str, base: str, base_view: str) -> Iterator[Line]:
    """Both images, the base first.

    uenv takes an image as a label or as a path that starts with `/` or `.` and has only letters,
    digits and `_ . / -`; several are separated by commas (uenv 9.2, src/uenv/parse.cpp). From version 10 on
    a job that is submitted inside `uenv start` is refused.
    """
    images = f"{base},{path}" if base else path
    own = f"{name}:{VIEW}"
    views = f"{base_view},{own}" if base and base_view else own
    odd = re.search(r"[^A-Za-z0-9_./-]", path)
    caveat = f"uenv cannot take a path with {odd[0]!r} in it: rename the image" if odd else ""
    image_option, view_option = f"--uenv={shlex.quote(images)}", f"--view={shlex.quote(views)}"
    yield Line("uenv", f"uenv start {shlex.quote(images)} {view_option}\npython script.py", caveat)
    text = f"#SBATCH {image_option}\n#SBATCH {view_option}\nsrun python script.py"
    yield Line("slurm", text, caveat or "submit it from a shell without a loaded uenv")


def _of_container(path: str, mount: str, container: str) -> Iterator[Line]:
    odd = re.search(r"[:,$\n]", path)
    caveat = f"a mount cannot have {odd[0]!r} in its path: rename the image" if odd else ""
    python = f"{mount}/bin/python script.py"
    is_file = container.startswith("/")
    registry = re.sub(r"^([^/]+\.[^/]+)/", r"\1#", container)  # the registry's host ends in # there
    image = f"image = {quoting.toml(container if is_file else registry)}\n" if container else ""
    mounts = f"mounts = [{quoting.toml(f'{path}:{mount}:sqsh')}]"
    yield Line("edf", f"{image}{mounts}\n# srun --environment=./FILE.toml {python}", caveat)
    source = container if is_file else f"docker://{container}" if container else "IMAGE"
    option = f"-B {shlex.quote(f'{path}:{mount}:image-src=/')}"
    yield Line("apptainer", f"apptainer exec {option} {shlex.quote(source)} {python}", caveat)

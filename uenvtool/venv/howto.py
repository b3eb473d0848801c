"""Writes the exact lines that use a packed overlay where it works: with the uenv or in the container that it lies on.

The lines are those of `knowledge/runtimes/NAME.yaml`, key `use`. Their marks: @IMAGES@ and @VIEWS@ for uenv,
@MOUNT_SH@ and @MOUNT_TOML@ for an image that is mounted into a container, @BASE_SH@ and @BASE_TOML@ for that
container, and @COMMAND@, what is run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.session import container_name, in_container
from uenvtool.knowledge.runtime import Runtime, all_runtimes
from uenvtool.venv.discovery import ENVIRONMENT, UENV

VIEW = "venv"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """How one runtime uses an image. use: where the text belongs. caveat: what to know before it is used."""

    runtime: str
    use: str
    text: str
    caveat: str = ""


def lines(image: Path, name: str, mount: str, base: Mapping[str, Any]) -> Iterator[Line]:
    """Say how to use an image. name: of the uenv that it is. base: what the overlay's record says of it.

    Each ends in what to run. A base in a container is nowhere else, and a uenv or a Python of the host is not in a
    container. No line starts a container without a name. Nothing mounts an image beside the host's modules, or where no
    uenv client is: there a job unpacks it on each node.
    """
    inside = bool(base.get("in_container"))
    if inside:
        is_usable = bool(base.get("image"))
    else:
        is_usable = base.get("kind") == UENV or (base.get("kind") != ENVIRONMENT and shutil.which("uenv") is not None)
    for runtime in all_runtimes() if is_usable else ():
        if runtime.container == inside:
            yield from _of_runtime(runtime, os.path.abspath(image), name, mount, base)


def shown(use: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Write the lines, as data, for a reader; a caveat once, behind the last that it is of."""
    for number, line in enumerate(use):
        yield "\n".join([f"{line['use']}:", *(f"  {text}" for text in line["text"].split("\n"))])
        if line["caveat"] and all(line["caveat"] != later["caveat"] for later in use[number + 1 :]):
            yield f"  ({line['caveat']})"


def surroundings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Take the place of an overlay's record for an environment of another tool: it lies on what is here."""
    inside = in_container(environ)
    return {"in_container": inside, "image": container_name(environ) if inside else ""}


def _of_runtime(runtime: Runtime, path: str, name: str, mount: str, base: Mapping[str, Any]) -> Iterator[Line]:
    base_image, base_view = str(base.get("image") or ""), str(base.get("view") or "")
    own = f"{name}:{VIEW}"
    mounted = filled(runtime.mount, IMAGE=path, MOUNT=mount) if runtime.mount else ""
    oci = base_image if base_image.startswith("/") else f"docker://{base_image}"
    values = {
        "IMAGES": shlex.quote(f"{base_image},{path}" if base_image else path),
        "VIEWS": shlex.quote(f"{base_view},{own}" if base_image and base_view else own),
        "MOUNT_SH": shlex.quote(mounted),
        "MOUNT_TOML": quoting.toml(mounted),
        "BASE_SH": shlex.quote(oci),
        "BASE_TOML": quoting.toml(re.sub(r"^([^/]+\.[^/]+)/", r"\1#", base_image)),  # [REGISTRY#]IMAGE
        "COMMAND": f"{quoting.sh_word(f'{mount}/bin/python')} script.py" if runtime.container else "python script.py",
    }
    odd = runtime.paths.search(path) if runtime.paths else None
    caveat = f"{runtime.name} cannot take a path with {odd[0]!r} in it: rename or move the image" if odd else ""
    for use in runtime.use:
        used = {mark: value for mark, value in values.items() if f"@{mark}@" in use.lines}
        if "#SBATCH" in use.lines and not "".join(used.values()).isprintable():
            continue  # such a line ends at a line break, also within quotes
        text = filled(use.lines, **used)
        yield Line(runtime=runtime.name, use=use.where, text=text, caveat=caveat or use.note)

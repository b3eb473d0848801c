"""Writes the lines that load a packed overlay together with the uenv or container that is its base.

The lines come from the key `use` of `knowledge/runtimes/NAME.yaml`. Their placeholders are @IMAGES@ and @VIEWS@ for
uenv, @MOUNT_SH@ and @MOUNT_TOML@ for an image that is mounted into a container, @BASE_SH@ and @BASE_TOML@ for that
container, and @COMMAND@ for the command to run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.session import container_name, in_container
from uenvtool.knowledge.runtime import Runtime, all_runtimes
from uenvtool.venv.base import ENVIRONMENT, UENV

VIEW = "venv"


def uses(image: Path, name: str, mount: str, base: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the ways to load an image, as data for --json, in each runtime that supports its base.

    runtime: the runtime's name. use: where to put the lines, such as in a batch script. text: the lines, which end with
    the command to run. caveat: a limitation to print below the lines. name: the image's uenv name. base: the base in
    the overlay's record. A container base works only in containers; a uenv or host Python works only outside them. A
    container without a name yields nothing. A base from host modules, or a machine without the uenv client, cannot
    mount an image, so the job unpacks it on each node.
    """
    needs_container = bool(base.get("in_container"))
    if needs_container:
        is_usable = bool(base.get("image"))
    else:
        is_usable = base.get("kind") == UENV or (base.get("kind") != ENVIRONMENT and shutil.which("uenv") is not None)
    for runtime in all_runtimes() if is_usable else ():
        if runtime.container == needs_container:
            yield from _of_runtime(runtime, os.path.abspath(image), name, mount, base)


def shown(ways: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the texts to print for these ways to load an image. A shared caveat is printed once, after the last way."""
    for number, use in enumerate(ways):
        yield "\n".join([f"{use['use']}:", *(f"  {line}" for line in use["text"].split("\n"))])
        if use["caveat"] and all(use["caveat"] != later["caveat"] for later in ways[number + 1 :]):
            yield f"  ({use['caveat']})"


def surroundings(environ: Mapping[str, str]) -> dict[str, Any]:
    """Describe the current container or host as the base of an environment that uenvtool did not record."""
    is_inside = in_container(environ)
    return {"in_container": is_inside, "image": container_name(environ) if is_inside else ""}


def _of_runtime(
    runtime: Runtime, path: str, name: str, mount: str, base: Mapping[str, Any]
) -> Iterator[dict[str, str]]:
    base_image, base_view = str(base.get("image") or ""), str(base.get("view") or "")
    view = f"{name}:{VIEW}"
    mount_option = filled(runtime.mount, IMAGE=path, MOUNT=mount) if runtime.mount else ""
    oci = base_image if base_image.startswith("/") else f"docker://{base_image}"
    values = {
        "IMAGES": shlex.quote(f"{base_image},{path}" if base_image else path),
        "VIEWS": shlex.quote(f"{base_view},{view}" if base_image and base_view else view),
        "MOUNT_SH": shlex.quote(mount_option),
        "MOUNT_TOML": quoting.toml(mount_option),
        "BASE_SH": shlex.quote(oci),
        "BASE_TOML": quoting.toml(re.sub(r"^([^/]+\.[^/]+)/", r"\1#", base_image)),  # [REGISTRY#]IMAGE
        "COMMAND": f"{quoting.sh_word(f'{mount}/bin/python')} script.py" if runtime.container else "python script.py",
    }
    caveat = ""
    if invalid := runtime.paths and runtime.paths.search(path):
        caveat = f"{runtime.name} does not accept a path that contains {invalid[0]!r}: rename or move the image"
    for use in runtime.use:
        used = {mark: value for mark, value in values.items() if f"@{mark}@" in use.lines}
        if "#SBATCH" in use.lines and not "".join(used.values()).isprintable():
            continue  # an #SBATCH line ends at a line break, even inside quotes
        text = filled(use.lines, **used)
        yield {"runtime": runtime.name, "use": use.where, "text": text, "caveat": caveat or use.note}

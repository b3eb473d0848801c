"""Packs a folder that many ranks read (a data set, a cache of models, a conda environment) into one image."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Progress, Result
from uenvtool.core.words import size_text
from uenvtool.image.metadata import ENV, PACKED, Uenv, env_json, packed_json, uenv_name
from uenvtool.image.pack import pack
from uenvtool.image.programs import find_programs
from uenvtool.image.read import refuse_foreign
from uenvtool.image.tree import Tree

MOUNTABLE = re.compile(r"(/[A-Za-z0-9_.@%-]+)+")
"""What uenv, the Container Engine and Apptainer all take as a place or an image."""


def pack_data(folder: Path, image: Path | None, mount: str, progress: Progress) -> Result:
    """Pack a folder as it is, with the sum of the image beside it; nothing of the folder is changed.

    mount: where jobs see it, by default at the folder's own place, so that what names it stays as it is.

    Raises BadInput for a folder or a place that cannot be, ToolMissing without squashfs-tools, ToolFailed if the disk
    or a program fails.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder", hint="name the folder to pack")
    source, place = Path(os.path.realpath(folder)), os.path.abspath(folder)
    target = Path(os.path.abspath(image or f"{os.path.basename(place)}.squashfs"))
    mount = mount or place
    for path in (mount, str(target)):
        if not MOUNTABLE.fullmatch(path) or os.path.normpath(path) != path:
            hint = "--mount and -o take an absolute path of letters, digits and _ . - @ %"
            raise BadInput(f"{path}: no runtime can mount that", hint=hint)
    if source in (target, *target.parents):
        raise BadInput(f"{target} lies in what is packed", hint="put the image elsewhere with -o")
    if (source / ENV).exists():
        raise BadInput(f"{folder} is a uenv of its own: it has {ENV}", hint="`uenvtool image build` packs those")
    with progress(f"packing {folder}") as on_step, files.workplace(target) as work:
        on_step(str(target))
        refuse_foreign(target)
        sums = target.with_name(f"{target.name}.sha256")
        if os.path.lexists(sums) and not re.fullmatch(rb"[0-9a-f]{64}  [^\n]+\n", files.read_bytes(sums, 4096)):
            raise BadInput(f"{sums} is not the sum of an image", hint="choose another name, or remove it yourself")
        programs = find_programs()
        uenv = Uenv(
            name=uenv_name(target.stem, "data"), description=f"{folder.name}, packed by uenvtool", mount=mount, views={}
        )
        added = {ENV.encode(): env_json(uenv).encode(), PACKED.encode(): packed_json(mount).encode()}
        with files.scratch_folder() as scratch:
            packed = pack(programs, Tree(folder=source, added=added), work / "new", scratch)
        files.fill(work, {"sum": f"{packed.sha256}  {target.name}\n"})
        names = {packed.path: target, work / "sum": sums}
        files.publish([files.Replacement(new=new, target=place) for new, place in names.items()])
    parent = os.path.relpath(target.parent)
    sum_check = "" if parent == "." else f"cd {shlex.quote(parent)} && "
    sum_check += f"sha256sum -c {shlex.quote(f'{target.name}.sha256')}"
    option = f"--mount-data {shlex.quote(f'{os.path.relpath(target)}:{mount}')}"
    return Result(
        data={"path": str(target), "mount": mount, "bytes": packed.bytes, "sha256": packed.sha256},
        text=str(target),
        notes=(
            f"{size_text(packed.bytes)}, read back; `{sum_check}` checks a copy",
            *_advice(source, mount),
        ),
        next=(f"uenvtool job {option} -o train.sh -- python train.py",),
    )


def _advice(folder: Path, mount: str) -> Iterator[str]:
    """Yield what a job has to set for what the folder is."""
    if (folder / "hub").is_dir() or any(folder.glob("models--*")):
        name = "HF_HOME" if (folder / "hub").is_dir() else "HF_HUB_CACHE"
        yield f"a cache of Hugging Face: in the job --env {name}={mount} --env HF_HUB_OFFLINE=1, since it is read-only"
    if (folder / "conda-meta").is_dir() and mount != str(folder):
        yield f"an environment of conda knows its own place: mount it at {folder}"
    yield f"a uenv mounts it where a folder is: `mkdir -p {shlex.quote(mount)}`"

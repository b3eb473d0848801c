"""Where an overlay may be put, how it gets there, and how it is packed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uenvtool import files
from uenvtool.errors import AnswerIsNo, BadInput
from uenvtool.overlay.abi import recorded_files
from uenvtool.overlay.check import installed
from uenvtool.overlay.create import CONFIG, RECORD_FOLDER
from uenvtool.overlay.record import RECORD, Record, parse_record, read_record
from uenvtool.overlay.versions import canonical
from uenvtool.overlay.where import CONTAINER
from uenvtool.result import Step

if TYPE_CHECKING:
    from uenvtool.commands.venv.make import Order
    from uenvtool.overlay.base import Base, Distribution

OWN_NAMES = {"bin", "lib", "lib64", "include", "meta", CONFIG, RECORD_FOLDER, ".gitignore", ".lock", "CACHEDIR.TAG"}
"""What lies at the top of an overlay beside what packages bring."""
IMAGE_SUFFIXES = (".squashfs", ".sqfs", ".sqsh", ".squash")


def is_environment(path: Path) -> bool:
    """Whether a folder is a virtual environment of whatever tool."""
    return (path / CONFIG).is_file()


def refuse_foreign(target: Path, order: Order) -> None:
    """Raise BadInput where the target is something that the tool did not make and must not replace."""
    shown = order.path
    if set(target.name) & {os.pathsep} or os.pathsep in str(target):
        raise BadInput(f"{shown} has a {os.pathsep!r} in it, which no PATH can hold", hint="choose another name")
    if target in (here := Path.cwd(), *here.parents):
        raise BadInput(f"{shown} is the current folder, or holds it", hint="go elsewhere, or choose another name")
    if os.path.lexists(target) and target.is_symlink():
        raise BadInput(f"{shown} is a symlink", hint=f"name the folder itself: {os.path.realpath(target)}")
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise BadInput(f"{shown} is not a folder", hint="choose another name")
    if not is_environment(target):
        if any(child.name for child in target.iterdir()):
            raise BadInput(f"{shown} is not a virtual environment, and not empty", hint="choose another name")
        return
    only_packs = order.squash is not None and not order.asks
    if not (target / RECORD_FOLDER / RECORD).is_file() and not only_packs:
        hint = "choose another name; `uenvtool venv PATH --squash` packs it as it is"
        raise BadInput(f"{shown} is a virtual environment that uenvtool did not make", hint=hint)


def refuse_other_base(target: Path, previous: Record, base: Base) -> None:
    """Raise AnswerIsNo where the base of an overlay that is made again is just not loaded."""
    if base.is_plain and previous.base.get("kind") not in (None, base.found.kind):
        name, load = previous.base.get("name"), previous.base.get("load")
        raise AnswerIsNo(
            f"{target.name} lies on {name}, which is not loaded",
            hint=f"load it first{f': {load}' if load else ''}; or name another base with --base PYTHON",
        )


def checked_overrides(named: tuple[str, ...]) -> tuple[str, ...]:
    """The requirements that --override names. Raises BadInput where one is none."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in named:
        try:
            Requirement(text)
        except InvalidRequirement as error:
            hint = "a package's name, also with a version: --override torch==2.7.0"
            raise BadInput(f"--override {text}: {str(error).splitlines()[0]}", hint=hint) from error
    return named


def added_by_others(target: Path) -> list[str]:
    """What is in an overlay and not by this tool: packages that pip brought, files of the user's."""
    record = read_record(target)
    if record is None:
        return []
    known = {canonical(name) for name in record.versions}
    there = {name: each for site in target.glob("lib/python3*/site-packages") for name, each in installed(site).items()}
    brought = {top for each in there.values() for top in _top_names(target, each)}
    top = {child.name for child in target.iterdir()} - OWN_NAMES - brought
    return sorted([*(name for name in there if name not in known), *top])


def _top_names(target: Path, distribution: Distribution) -> Iterator[str]:
    """The names at the top of an overlay below which a distribution has files."""
    for name in recorded_files(distribution):
        inside = os.path.relpath(os.path.normpath(os.path.join(distribution.folder, name)), target)
        yield inside.partition(os.sep)[0]


def moved(source: Path, target: Path) -> None:
    """Give a finished tree its place beside the target: renamed on one filesystem, else copied."""
    if not files.move(source, target):
        files.copy_tree(source, target)


def is_image_name(name: str) -> bool:
    """Whether a name is that of an image: `--squash NAME` takes no other."""
    return name.endswith(IMAGE_SUFFIXES)


def image_path(squash: str, target: Path) -> Path:
    """The image's file: as named, else beside the overlay and after it: `.venv` gives venv.squashfs."""
    if squash:
        if not is_image_name(squash):
            raise BadInput(
                f"--squash {squash}: not the name of an image", hint=f"it ends in {', '.join(IMAGE_SUFFIXES)}"
            )
        return Path(squash)
    name = Path(os.path.abspath(target)).name.lstrip(".") or "venv"
    return target.parent / f"{name}.squashfs"


def checked_path(path: Path) -> Path:
    """The overlay's folder. Raises BadInput where the word is a requirement, which comes behind the folder."""
    text = str(path)
    if re.search(r"[<>=!~]=|[<>\[]|\.(txt|whl|in|toml)\Z|\A\Z", text) and not path.exists():
        hint = f"the folder comes first: `uenvtool venv .venv '{text}'`; a file of requirements is `-r FILE`"
        raise BadInput(f"{text} is not the name of a folder for an overlay", hint=hint)
    return path


def checked_mount(mount: str | None) -> str | None:
    """Where an image is to be mounted. Raises BadInput where neither uenv nor a container can take it."""
    if mount and (not re.fullmatch(r"(/[\w.+@%-]+)+", mount) or {".", ".."} & set(mount.split("/"))):
        raise BadInput(f"--mount {mount}: not an absolute path of plain names", hint="for example --mount /user-tools")
    return mount


def _mount(order: Order) -> str:
    """As ordered, else as the image has it that is replaced, else the usual place."""
    from uenvtool.overlay.packed import MOUNT, info

    before = info(order.squash).mount if not order.mount and order.squash and order.squash.is_file() else ""
    return order.mount or before or MOUNT


def refuse_image(order: Order) -> None:
    """Raise, before any work, what stands against the ordered image: a foreign file, or no mksquashfs."""
    if order.squash is None:
        return
    from uenvtool.image.programs import find_programs
    from uenvtool.image.read import refuse_foreign as refuse_foreign_image

    refuse_foreign_image(order.squash)
    find_programs()


def read_image_record(image: Path) -> Record | None:
    """The record in a packed overlay; None where it has none. Raises BadInput where it is no image."""
    from uenvtool.image.metadata import EXTRA
    from uenvtool.image.read import read_texts

    name = f"{EXTRA}/{RECORD}"
    text = read_texts(image, [name]).get(name)
    return None if text is None else parse_record(text, f"{image}:{name}")


def unpacked(image: Path, folder: Path | None) -> Path:
    """A packed overlay as a loose folder again; the folder.

    Raises BadInput where the folder is there already.
    """
    from uenvtool.overlay.packed import unpack_overlay

    target = folder or Path(image.stem)
    if os.path.lexists(target):
        raise BadInput(f"{target} is there already", hint="name another folder: uenvtool venv unpack IMAGE PATH")
    unpack_overlay(image, target)
    return target


def packed(folder: Path, order: Order, base: Mapping[str, Any], on_note: Step, *, keep: bool) -> Mapping[str, Any]:
    """Pack a loose overlay into the ordered image; `keep` leaves the old image under another name.

    base: what the overlay's record says of it. Raises ToolMissing where there is no mksquashfs,
    ToolFailed where packing fails.
    """
    from uenvtool.image.metadata import uenv_name
    from uenvtool.overlay import howto
    from uenvtool.overlay.packed import VIEW, pack_overlay

    target, mount = order.squash or Path(), _mount(order)
    previous = None
    if keep and target.is_file():
        previous = target.with_name(f"{target.stem}.previous{target.suffix}")
        files.keep_copy(target, previous)
    done = pack_overlay(folder, target, mount=mount, epoch=_epoch(), on_note=on_note)
    lines = howto.lines(
        str(target),
        uenv_name(target.stem, VIEW),
        mount,
        str(base.get("image") or ""),
        str(base.get("view") or ""),
    )
    return {
        "path": str(done.path),
        "bytes": done.bytes,
        "sha256": done.sha256,
        "compression": done.compression,
        "mount": mount,
        "previous": str(previous) if previous else None,
        "use": [each.data() for each in lines if base.get("kind") != CONTAINER or each.use not in howto.OF_UENV],
    }


def _epoch() -> int | None:
    """SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/)."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and not text.isdigit():
        raise BadInput(f"SOURCE_DATE_EPOCH={text} is not a number of seconds", hint="for example 0")
    return int(text) if text else None

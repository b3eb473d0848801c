"""The image of an overlay: what may be replaced, packing it beside its place, and what an older one says."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.venv import howto
from uenvtool.venv.order import Order, default_image
from uenvtool.venv.record import OverlayRecord, noted_image, parse_record, read_record, record_name
from uenvtool.venv.requirements import UserRequirement
from uenvtool.venv.results import PackedImage, shown_path
from uenvtool.venv.target import previous_names


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedImage:
    """An image that is complete beside its place. replacement: what gives it its name; image: what it is then."""

    replacement: files.Replacement
    image: PackedImage


def refuse_foreign_image(order: Order) -> None:
    """Raise, before any work, what stands against the ordered image: a foreign file, or no mksquashfs."""
    if order.image is None:
        return
    from uenvtool.image.programs import find_programs
    from uenvtool.image.read import refuse_foreign

    refuse_foreign(order.image)
    find_programs()


def read_image_record(image: Path) -> OverlayRecord | None:
    """The record in a packed overlay; None if it has none. Raises BadInput if the file is not an image."""
    from uenvtool.image.read import read_texts

    text = read_texts(image, [record_name()]).get(record_name())
    return None if text is None else parse_record(text, f"{image}:{record_name()}")


def image_of(overlay: Path) -> Path | None:
    """The image that a loose overlay was packed into, if it is there: as noted, else beside it and after it."""
    image = noted_image(overlay) or default_image(overlay)
    return image if image.is_file() else None


def overlay_of(image: Path) -> Path | None:
    """The loose overlay that an image was packed from, if it lies beside it."""
    for name in (image.stem, f".{image.stem}"):
        overlay = image.parent / name
        if read_record(overlay) is not None and image_of(overlay) == image:
            return overlay
    return None


def is_older(image: Path, overlay: Path) -> bool:
    """Tell if an image holds another state of its overlay; of what cannot be read here nothing is said."""
    try:
        packed = read_image_record(image)
    except (BadInput, ToolMissing):
        return False
    return packed is not None and packed != read_record(overlay)


def repack_command(overlay: Path, image: Path) -> str:
    """The command that packs an overlay into its image again."""
    words = ["uenvtool", "venv", shown_path(overlay), "--squash"]
    return shlex.join(words if image == default_image(overlay) else [*words, shown_path(image)])


@contextlib.contextmanager
def finished(
    folder: Path, target: Path, order: Order, base: Mapping[str, Any], notes: list[str]
) -> Iterator[FinishedImage]:
    """Pack a loose overlay beside the ordered image; nothing is replaced yet.

    base: what the overlay's record says of it. notes: takes what the packing programs cannot do here.
    Raises ToolMissing without mksquashfs, ToolFailed if packing fails or the image is not what was packed.
    """
    from uenvtool.image.metadata import uenv_name
    from uenvtool.venv.packed import VIEW, prepared

    mount = _mount(target, order)
    kept = _previous_name(target) if order.update and target.is_file() else None
    with prepared(folder, target, mount=mount, epoch=_epoch(), on_note=notes.append) as new:
        yield FinishedImage(
            replacement=new.replacement(kept),
            image=PackedImage(
                path=new.packed.path,
                bytes=new.packed.bytes,
                sha256=new.packed.sha256,
                compression=new.packed.compression,
                mount=mount,
                previous=kept,
                use=tuple(howto.lines(target, uenv_name(target.stem, VIEW), mount, base)),
            ),
        )


def _previous_name(image: Path) -> Path:
    """The name that the old image keeps: the first one that is free, or is that of an image of this tool's."""
    from uenvtool.image.read import refuse_foreign

    for name in previous_names(image.stem, image.suffix):
        previous = image.with_name(name)
        with contextlib.suppress(BadInput):
            refuse_foreign(previous)
            return previous
    raise AssertionError("names do not end")


def editable_notes(requirements: Iterable[UserRequirement]) -> list[str]:
    """What to know of the editable projects in an image: they are paths."""
    places = [requirement.place for requirement in requirements if requirement.editable]
    return [f"{place} is editable: that folder has to be there wherever the image is used" for place in places]


def _mount(target: Path, order: Order) -> str:
    """As ordered, else as the image that is replaced has it, else the usual place."""
    from uenvtool.venv.packed import MOUNT, info

    before = info(target).mount if not order.mount and target.is_file() else ""
    return order.mount or before or MOUNT


def _epoch() -> int | None:
    """SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/)."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and (not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 1 << 32):
        hint = "seconds since 1970, less than 2^32: for example 0"
        raise BadInput(f"SOURCE_DATE_EPOCH={text} is not a time that an image can hold", hint=hint)
    return int(text) if text else None

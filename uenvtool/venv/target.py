"""The place of an overlay: what may be replaced there, and what in it is not this tool's."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.venv.create import CONFIG, RECORD_FOLDER
from uenvtool.venv.manifest import Foreign, foreign
from uenvtool.venv.order import Order
from uenvtool.venv.record import RECORD, read_record


def is_environment(path: Path) -> bool:
    """Tell if a folder is a virtual environment of whatever tool."""
    return (path / CONFIG).is_file()


def refuse_foreign(target: Path, order: Order) -> None:
    """Raise BadInput if the target is something that the tool did not make and must not replace."""
    shown = order.path
    if target in (here := Path.cwd(), *here.parents):
        raise BadInput(f"{shown} is the current folder, or holds it", hint="go elsewhere, or choose another name")
    if not os.path.lexists(target):
        return
    if target.is_symlink():
        raise BadInput(f"{shown} is a symlink", hint=f"name the folder itself: {os.path.realpath(target)}")
    if not target.is_dir():
        is_image = str(shown).endswith(".squashfs")
        hint = "name the overlay's folder: its image is NAME.squashfs beside it" if is_image else "choose another name"
        raise BadInput(f"{shown} is not a folder", hint=hint)
    if not is_environment(target):
        if any(target.iterdir()):
            raise BadInput(f"{shown} is not a virtual environment, and not empty", hint="choose another name")
        return
    only_packs = order.squash is not None and not order.changes_overlay
    if not (target / RECORD_FOLDER / RECORD).is_file() and not only_packs:
        hint = f"name another folder as the first word: `uenvtool venv myenv ...`; `uenvtool venv {shown} --squash` "
        hint += "packs this one as it is"
        raise BadInput(f"{shown} is a virtual environment that another tool made", hint=hint)


def added_by_others(target: Path, new: Path | None = None) -> Foreign | None:
    """What is in an overlay and not by this tool: packages that pip brought, files and changes of the user's.

    new: the overlay that takes its place. None if the target is no overlay of this tool's.
    """
    record = read_record(target)
    return None if record is None else foreign(target, record.versions, new)


def move_beside(source: Path, target: Path) -> None:
    """Bring a finished tree beside its place: renamed on one filesystem, else copied."""
    if not files.move(source, target):
        files.copy_tree(source, target)


def previous_name(target: Path) -> Path:
    """The name that the old overlay keeps: PATH.previous, or PATH.previous.2 and so on if that holds something else."""
    for name in previous_names(target.name):
        previous = target.with_name(name)
        if not os.path.lexists(previous) or (previous.is_dir() and not previous.is_symlink() and _is_own(previous)):
            return previous
    raise AssertionError("names do not end")


def previous_names(name: str, suffix: str = "") -> Iterator[str]:
    """The names that something old may keep, best first."""
    yield f"{name}.previous{suffix}"
    yield from (f"{name}.previous.{number}{suffix}" for number in itertools.count(2))


def _is_own(folder: Path) -> bool:
    """Tell if all that is in a folder is an overlay of this tool's."""
    try:
        found = added_by_others(folder)
    except BadInput:
        return False
    return found is not None and not found

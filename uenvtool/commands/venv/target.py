"""The place of an overlay: what may be replaced there, and what in it is not this tool's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from uenvtool import files
from uenvtool.commands.venv.order import Order
from uenvtool.errors import BadInput
from uenvtool.overlay.abi import recorded_files
from uenvtool.overlay.base import Distribution
from uenvtool.overlay.check import installed
from uenvtool.overlay.create import CONFIG, RECORD_FOLDER
from uenvtool.overlay.record import RECORD, read_record
from uenvtool.overlay.versions import canonical

OWN_NAMES = {"bin", "lib", "lib64", "include", "meta", CONFIG, RECORD_FOLDER, ".gitignore", ".lock", "CACHEDIR.TAG"}
"""What lies at the top of an overlay beside what packages bring."""


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
        raise BadInput(f"{shown} is not a folder", hint="choose another name")
    if not is_environment(target):
        if any(target.iterdir()):
            raise BadInput(f"{shown} is not a virtual environment, and not empty", hint="choose another name")
        return
    only_packs = order.squash is not None and not order.changes_overlay
    if not (target / RECORD_FOLDER / RECORD).is_file() and not only_packs:
        hint = f"name another folder before the packages: uenvtool venv myenv ...; `uenvtool venv {shown} --squash` "
        hint += "packs that environment as it is"
        raise BadInput(f"{shown} is a virtual environment that another tool made", hint=hint)


def added_by_others(target: Path) -> list[str]:
    """What is in an overlay and not by this tool: packages that pip brought, files of the user's."""
    record = read_record(target)
    if record is None:
        return []
    known = {canonical(name) for name in record.versions}
    found = {
        name: package for site in target.glob("lib/python3*/site-packages") for name, package in installed(site).items()
    }
    brought = {top for package in found.values() for top in _top_names(target, package)}
    top = {child.name for child in target.iterdir()} - OWN_NAMES - brought
    return sorted([*(name for name in found if name not in known), *top])


def move_beside(source: Path, target: Path) -> None:
    """Bring a finished tree beside its place: renamed on one filesystem, else copied."""
    if not files.move(source, target):
        files.copy_tree(source, target)


def previous_name(target: Path) -> Path:
    """The name that the old overlay keeps."""
    return target.with_name(f"{target.name}.previous")


def _top_names(target: Path, distribution: Distribution) -> Iterator[str]:
    """The names at the top of an overlay below which a distribution has files."""
    for name in recorded_files(distribution):
        inside = os.path.relpath(os.path.normpath(os.path.join(distribution.folder, name)), target)
        yield inside.partition(os.sep)[0]

"""What stays of the overlay that is there: it is neither read nor written again when the overlay changes."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.image.bytecode import cache_name
from uenvtool.venv import pylock
from uenvtool.venv.discovery import RECORD_FOLDER
from uenvtool.venv.plan import OverlayPlan
from uenvtool.venv.settings import ALL


def staying(plan: OverlayPlan, lock: str, old: Path) -> frozenset[str]:
    """List the packages that the new lock has as the old overlay does, on the same base, and nobody changed there."""
    before = plan.previous
    if before is None or before.base.get("fingerprint") != plan.base.fingerprint():
        return frozenset()
    otherwise = set(before.built_on_base) ^ set(plan.settings.built_on_base)
    if ALL in otherwise:
        return frozenset()
    try:
        text = files.read_bytes(old / RECORD_FOLDER / pylock.LOCK, pylock.MAX_BYTES).decode("utf-8")
        return (pylock.unchanged(lock, text) & plan.there.whole.keys()) - otherwise
    except (FileNotFoundError, BadInput, ValueError):  # of the old overlay's lock: it says nothing
        return frozenset()


def take_over(old: Path, new: Path, names: Collection[str], version: str, *, linked: bool) -> set[bytes]:
    """Give a new overlay the files, with their bytecode; return the modules that have some. version: Python's.

    linked: the old overlay goes, so that both may have one file. What the new one has already is left.
    """
    tag = os.fsencode("cpython-" + "".join(version.split(".")[:2]))
    taken = files.take_files(old, new, names, linked=linked)
    missing = next((name for name in names if name not in taken and not os.path.lexists(new / name)), None)
    if missing:
        raise ToolFailed(f"{old / missing} has gone while this ran", hint="run it again; nothing was changed")
    modules = [os.fsencode(name) for name in taken if name.endswith(".py")]
    bytecode = {os.fsdecode(cache_name(module, tag)): module for module in modules}
    return {bytecode[name] for name in files.take_files(old, new, bytecode, linked=linked)}

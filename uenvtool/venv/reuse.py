"""Reuses the unchanged packages of an existing overlay, which are neither read nor written again."""

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


def reusable(plan: OverlayPlan, lock: str, old: Path) -> frozenset[str]:
    """Return the packages that are equal in the new lock and the old overlay, if the base is the same.

    A package whose files somebody changed in the old overlay is not among them.
    """
    previous = plan.previous
    if previous is None or previous.base.get("fingerprint") != plan.base.fingerprint():
        return frozenset()
    built_otherwise = set(previous.built_on_base) ^ set(plan.settings.built_on_base)
    if ALL in built_otherwise:
        return frozenset()
    try:
        text = files.read_bytes(old / RECORD_FOLDER / pylock.LOCK, pylock.MAX_BYTES).decode("utf-8")
        return (pylock.unchanged(lock, text) & plan.foreign.whole.keys()) - built_otherwise
    except (FileNotFoundError, BadInput, ValueError):  # the old overlay's lock is missing or damaged
        return frozenset()


def reuse_files(old: Path, new: Path, names: Collection[str], version: str, *, linked: bool) -> set[bytes]:
    """Copy files and their bytecode from an old to a new overlay; return the modules that have bytecode.

    version: the version of Python. linked: the old overlay will be removed, so hard links may replace copies. Files
    that the new overlay already has are not replaced.
    """
    tag = os.fsencode("cpython-" + "".join(version.split(".")[:2]))
    copied = files.take_files(old, new, names, linked=linked)
    missing = next((name for name in names if name not in copied and not os.path.lexists(new / name)), None)
    if missing:
        raise ToolFailed(
            f"{old / missing} was removed during this run", hint="run the command again; nothing was changed"
        )
    modules = [os.fsencode(name) for name in copied if name.endswith(".py")]
    bytecode = {os.fsdecode(cache_name(module, tag)): module for module in modules}
    return {bytecode[name] for name in files.take_files(old, new, bytecode, linked=linked)}

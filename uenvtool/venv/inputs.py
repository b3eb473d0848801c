"""Takes what the current folder says it needs where `venv --squash` names nothing: at first, and after it changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.projects import FOUND_HERE, MAX_BYTES, PYPROJECT, UV_LOCK, found_here, is_lock
from uenvtool.venv.record import read_record
from uenvtool.venv.request import VenvRequest


def with_files_here(request: VenvRequest, target: Path) -> tuple[VenvRequest, str]:
    """Return a request that only packs with the files that the overlay is made from, and what to tell of it.

    They are the current folder's: of a new overlay the best of them, of one that is there those that its record names,
    if they have changed. Other requests are returned as they are.
    """
    if request.squash is None or request.changes_overlay:
        return request, ""
    record = read_record(target)
    if record is None:
        names = [] if (target / CONFIG).is_file() else found_here()[:1]
        return _with(request, names, {}), f"made from {names[0]} of this folder" if names else ""
    names = list(record.made_from.get("names", ()))
    if not names or record.made_from["folder"] != _here(target) or not all(map(os.path.isfile, names)):
        return request, ""
    shown = ", ".join(names)
    if record.made_from["digest"] == _digest(names):
        return request, f"packed as it is: {shown} is as it was"
    return _with(request, names, record.made_from), f"{shown} has changed: {request.path} is brought up to it"


def made_from(request: VenvRequest, target: Path, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a record says of the files of the current folder that were named. before: what it said."""
    named = [*request.requirements, *([str(request.from_)] if request.from_ else [])]
    names = [name for name in named if name in FOUND_HERE]
    if not names:
        return {} if request.from_ else before
    return {
        "names": names,
        "folder": _here(target),
        "digest": _digest(names),
        "extra": list(request.extra),
        "group": list(request.group),
    }


def _with(request: VenvRequest, names: Sequence[str], before: Mapping[str, Any]) -> VenvRequest:
    return replace(
        request,
        requirements=tuple(name for name in names if not is_lock(name)),
        from_=next((Path(name) for name in names if is_lock(name)), None),
        extra=request.extra or tuple(before.get("extra", ())),
        group=request.group or tuple(before.get("group", ())),
    )


def _here(target: Path) -> str:
    return os.path.relpath(Path.cwd(), target)


def _digest(names: Sequence[str]) -> str:
    """Return the sha256 of the files; of a uv.lock with the project that it is for."""
    read = [*names, *([PYPROJECT] if UV_LOCK in names and os.path.isfile(PYPROJECT) else [])]
    return files.digest(b"\0".join(files.read_bytes(Path(name), MAX_BYTES) for name in read))

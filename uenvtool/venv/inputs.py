"""Adds the current directory's requirement files to a `venv --squash` command that names no packages."""

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
from uenvtool.venv.sources import changed_files


def with_files_here(request: VenvRequest, target: Path) -> tuple[VenvRequest, str]:
    """Return a request with the current directory's requirement files added, and a note about them or an empty string.

    Only a request that packs without changes gets files. A new overlay gets the first file of `found_here`. An existing
    overlay gets the files that its record names, if the files, the options or the package directories have changed
    since the overlay was made.
    """
    if request.squash is None or request.changes_overlay:
        return request, ""
    record = read_record(target)
    if record is None:
        names = [] if (target / CONFIG).is_file() else found_here()[:1]
        return _with(request, names, {}), f"made from {names[0]} in this directory" if names else ""
    made_from = record.made_from
    names = list(made_from.get("names", ()))
    if not names or made_from["folder"] != _relative_cwd(target) or not all(map(os.path.isfile, names)):
        return request, ""
    shown = ", ".join(names)
    if made_from["digest"] != _digest(names):
        return _with(request, names, made_from), f"{request.path} is updated because {shown} has changed"
    if any(value and value != tuple(made_from.get(name, ())) for name, value in request.of_project.items()):
        return _with(request, names, made_from), f"{request.path} is updated from {shown} with other options"
    if changed_files(record.sources):
        return _with(request, names, made_from), ""
    same = replace(request, extra=(), group=(), no_install_project=False, keep_base=False)
    return same, f"packed without changes: {shown} has not changed"


def made_from(request: VenvRequest, target: Path, previous: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field `made_from` of a record, which describes the current directory's files that the request names.

    previous: the old record's `made_from`, which is kept if the request names no such file and no lock.
    """
    named = [*request.requirements, *([str(request.from_)] if request.from_ else [])]
    names = [name for name in named if name in FOUND_HERE]
    if not names:
        return {} if request.from_ else previous
    return {
        "names": names,
        "folder": _relative_cwd(target),
        "digest": _digest(names),
        **{name: list(value) for name, value in request.of_project.items()},
    }


def _with(request: VenvRequest, names: Sequence[str], previous: Mapping[str, Any]) -> VenvRequest:
    return replace(
        request,
        requirements=tuple(name for name in names if not is_lock(name)),
        from_=next((Path(name) for name in names if is_lock(name)), None),
        extra=request.extra or tuple(previous.get("extra", ())),
        group=request.group or tuple(previous.get("group", ())),
        keep_base=request.keep_base or "--keep-base" in previous.get("options", ()),
        no_install_project=request.no_install_project or "--no-install-project" in previous.get("options", ()),
    )


def _relative_cwd(target: Path) -> str:
    return os.path.relpath(Path.cwd(), target)


def _digest(names: Sequence[str]) -> str:
    # A uv.lock is installed together with the groups in pyproject.toml.
    inputs = [*names, *([PYPROJECT] if UV_LOCK in names and os.path.isfile(PYPROJECT) else [])]
    return files.digest(b"\0".join(files.read_bytes(Path(name), MAX_BYTES) for name in inputs))

"""Selects the files of a store for an image: the packages in the locks, views, bytecode, and Spack's database."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.limits import limited
from uenvtool.env.install import LOCAL, MODULE_FILES, MOUNTING, POST_INSTALL, has_modules
from uenvtool.env.installable import Installable
from uenvtool.image import bytecode
from uenvtool.image.description import described
from uenvtool.image.pseudo import is_quotable
from uenvtool.image.tree import EPOCH, Entry, Tree, parents, walk
from uenvtool.knowledge.lock import DATABASE, LARGEST_DATABASE, LOCK

SBANG = "bin/sbang"
"""Spack's launcher for scripts whose first line is too long for the kernel (Spack 1.1, hooks/sbang.py)."""
PACKAGE_RECORDS = frozenset({"spec.json", "repos"})
"""The files in a package's `.spack` directory that a later Spack reads. The other files describe one build."""
_BYTECODE = re.compile(rb"(?P<folder>(?:.*/)?)__pycache__/(?P<stem>[^/]+)\.[^./]+\.pyc", re.DOTALL)


def image_tree(environments: Sequence[Installable], store: Path, scratch: Path) -> Tree:
    """Return the tree of an image, which is the same for every store that contains the packages in the locks.

    Compiles the bytecode again, in a form that Python never compares with its source, since the files in the image have
    other times than in the store. scratch: the directory for the bytecode. Raises BadInput if the store has no
    packages, ToolFailed if the environment's Python does not run.
    """
    first = environments[0]
    installs = _filtered_database(environments, store)
    below = f"{first.mount}/"
    prefixes = {str(row["path"]).removeprefix(below) for row in installs["installs"].values() if row["path"]}
    views = {view: _view_directory(each, store, view) for each in environments for view in each.views}
    kept = {*prefixes, *views.values(), *(f"env/{name}" for name in views), SBANG}
    kept |= {LOCAL} if POST_INSTALL in first.texts else set()
    kept |= {MODULE_FILES} if has_modules(environments) else set()
    left_out = {*_outermost_except(store, kept), *_build_records(store, prefixes)}
    entries = walk(store, left_out=left_out)
    compiled = _bytecode(environments, store, installs["installs"], entries, scratch)
    stale = {  # bytecode that was not compiled again, such as that of `python -O`
        name
        for name, entry in entries.items()
        if entry.kind == "f" and name.endswith(b".pyc") and b"__pycache__/" in name and name not in compiled
    }
    stale |= _links_to(entries, {*left_out, *stale}, os.fsencode(below))
    texts = described(environments, store, views)
    texts[DATABASE] = json.dumps({"database": installs}, sort_keys=True)
    return Tree(
        folder=store,
        entries={name: entry for name, entry in entries.items() if name not in stale},
        added={**{file.encode(): text.encode() for file, text in texts.items()}, **compiled},
        left_out={*left_out, *stale},
    )


def _filtered_database(environments: Sequence[Installable], store: Path) -> dict[str, Any]:
    path = store / DATABASE
    try:
        with limited(str(path)):
            database = json.loads(files.read_bytes(path, LARGEST_DATABASE))["database"]
        locks = [lock for environment in environments for lock in environment.locks]
        locked = {package.hash for lock in locks for package in lock.packages}
        rows = {key: row for key, row in database["installs"].items() if key in locked}
        edges = ({edge["hash"] for edge in row["spec"].get("dependencies", ())} for row in rows.values())
        needs = Counter(key for needed in edges for key in needed)
        roots = {root["hash"] for each in environments for root in json.loads(each.texts[LOCK])["roots"]}
        installs = {
            key: {
                **{field: value for field, value in row.items() if field != "origin"},
                "explicit": key in roots,
                "installation_time": float(EPOCH),
                "ref_count": needs[key],
            }
            for key, row in rows.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "name another directory with --store"
        raise BadInput(f"{store} is not a store of Spack: {error}", hint=hint) from error
    return {**database, "installs": installs}


def _outermost_except(store: Path, kept: Collection[str]) -> Iterator[bytes]:
    above = {os.fspath(parent) for name in kept for parent in Path(name).parents}
    waiting = [""]
    while waiting:
        parent = waiting.pop()
        for child in os.scandir(store / parent):
            name = f"{parent}/{child.name}" if parent else child.name
            if name in kept:
                continue
            if name in above and child.is_dir(follow_symlinks=False):
                waiting.append(name)
            else:
                yield os.fsencode(name)


def _build_records(store: Path, prefixes: Collection[str]) -> Iterator[bytes]:
    for prefix in prefixes:
        directory = store / prefix / ".spack"
        for name in os.listdir(directory) if directory.is_dir() else ():
            if name not in PACKAGE_RECORDS:
                yield os.fsencode(f"{prefix}/.spack/{name}")


def _python(environment: Installable, installs: Mapping[str, Any]) -> str:
    for package in environment.lock.packages:
        if package.name == "python":
            prefix = package.external or (installs.get(package.hash) or {}).get("path")
            version = ".".join(package.version.split(".")[:2])
            return f"{prefix}/bin/python{version}"
    return ""


def _bytecode(
    environments: Sequence[Installable],
    store: Path,
    installs: Mapping[str, Any],
    entries: Mapping[bytes, Entry],
    scratch: Path,
) -> dict[bytes, memoryview]:
    owners = _owners(environments, store, installs)
    modules: dict[str, dict[bytes, int]] = {}
    for name, entry in entries.items():
        match = _BYTECODE.fullmatch(name) if entry.kind == "f" and name.endswith(b".pyc") else None
        source = match["folder"] + match["stem"] + b".py" if match else b""
        if source in entries and entries[source].kind == "f" and is_quotable(source):
            owner = next((owners[part] for part in parents(source) if part in owners), environments[0])
            modules.setdefault(_python(owner, installs), {})[source] = entries[source].size
    compiled: dict[bytes, memoryview] = {}
    for python, sizes in sorted(modules.items()):
        if python:
            directory = scratch / files.digest(python)
            directory.mkdir(parents=True, exist_ok=True)
            at_mount_point = [*MOUNTING, "--writable", scratch, store, environments[0].mount]
            compiled |= bytecode.gather([*at_mount_point, python], store, sizes, directory)
    return compiled


def _owners(environments: Sequence[Installable], store: Path, installs: Mapping[str, Any]) -> dict[bytes, Installable]:
    """Return, for each package or view directory, the first environment that contains it."""
    owners: dict[bytes, Installable] = {}
    for environment in reversed(environments):
        paths = [str((installs.get(package.hash) or {}).get("path") or "") for package in environment.lock.packages]
        names = [path.removeprefix(f"{environment.mount}/") for path in paths]
        names += [_view_directory(environment, store, view) for view in environment.views]
        owners |= {os.fsencode(name): environment for name in names}
    return owners


def _links_to(entries: Mapping[bytes, Entry], left_out: Collection[bytes], below: bytes) -> set[bytes]:
    """Return the symlinks to names in `left_out`. For example, a view links to Spack's records of each package."""
    targets = {
        name: os.path.normpath(os.path.join(os.path.dirname(name), entry.target)).removeprefix(below)
        for name, entry in entries.items()
        if entry.kind == "l"
    }
    inside = {name: target for name, target in targets.items() if not target.startswith(b"/")}
    return {name for name, target in inside.items() if any(part in left_out for part in (target, *parents(target)))}


def _view_directory(environment: Installable, store: Path, view: str) -> str:
    name = f"env/{view}"
    if (store / name).is_symlink():  # to the directory that Spack wrote last
        return os.readlink(store / name).removeprefix(f"{environment.mount}/")
    return name

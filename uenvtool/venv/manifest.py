"""Tells which files of an overlay are the tool's, so that what somebody else put or changed there is found.

A package's RECORD has the sums of its files (packaging.python.org, recording installed packages). The manifest in
PATH/.uenvtool/ has those of all other files, and of each RECORD itself. Bytecode is made again and does not count.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.files import read_bytes
from uenvtool.venv.base import installed
from uenvtool.venv.record import read_record
from uenvtool.venv.where import RECORD_FOLDER

MANIFEST = "files.json"
MAX_BYTES = 50_000_000
READERS = 8
"""Files that are read at the same time: a parallel filesystem answers several as fast as one."""
_CACHE = "__pycache__"
_SITES = "lib/python3*/site-packages"


@dataclass(frozen=True, slots=True)
class Foreign:
    """What in an overlay is not the tool's: packages, by name, with their version; names below the overlay."""

    packages: Mapping[str, str]
    names: tuple[str, ...]

    def shown(self, most: int = 8) -> list[str]:
        """List all of it, or so many and how many more."""
        every = [*(f"{name} {version}" for name, version in sorted(self.packages.items())), *self.names]
        return every if len(every) <= most else [*every[:most], f"{len(every) - most} more"]

    def __bool__(self) -> bool:
        return bool(self.packages or self.names)


def manifest_text(folder: Path) -> str:
    """Write the manifest of an overlay that the tool has just built."""
    records = (path for site in folder.glob(_SITES) for path in site.glob("*.dist-info"))
    recorded = {name for path in records for name, _ in _rows(folder, path)}
    sums = {name: _sum(folder / name) for name in _files(folder) if name not in recorded}
    return json.dumps(sums, indent=1, sort_keys=True) + "\n"


def added_by_others(folder: Path, new: Path | None = None) -> Foreign | None:
    """Find what is in an overlay and not by this tool: packages that pip brought, files and changes of the user's.

    new: the overlay that takes its place. None if the folder is no overlay of this tool's.
    """
    record = read_record(folder)
    return None if record is None else foreign(folder, record.versions, new)


def is_own(folder: Path) -> bool:
    """Tell if all that is in a folder is an overlay of this tool's."""
    try:
        found = added_by_others(folder) if folder.is_dir() and not folder.is_symlink() else None
    except BadInput:
        return False
    return found is not None and not found


def foreign(folder: Path, versions: Mapping[str, str], new: Path | None = None) -> Foreign:
    """Find what in an overlay is not the tool's.

    versions: the packages that the tool installed there. new: the overlay that takes its place; what it holds with
    the same content is not lost.
    """
    own = _manifest(folder)
    packages: dict[str, str] = {}
    theirs: set[str] = set()
    sums: dict[str, str] = {}
    for site in folder.glob(_SITES):
        for name, package in installed(site).items():
            record = os.path.relpath(os.path.join(package.metadata, "RECORD"), folder)
            files = dict(_rows(folder, Path(package.metadata)))
            if versions.get(name) == package.version and (not own or own.get(record) == _sum(folder / record)):
                sums.update(files if own else {record: _sum(folder / record), **files})
            else:
                packages[package.name] = package.version
                theirs.update((*files, record))
    sums.update(own)
    suspects = [name for name in _unknown(folder, {*sums, *theirs}, new) if name not in theirs]
    with ThreadPoolExecutor(READERS) as pool:
        changed = pool.map(lambda name: _differs(folder, name, sums.get(name), new), suspects)
        names = [name for name, differs in zip(suspects, changed, strict=True) if differs]
    return Foreign(packages, tuple(sorted(names)))


def _manifest(folder: Path) -> dict[str, str]:
    """Read the manifest of an overlay; empty if it has none, or none that can be read: the rest is compared then."""
    try:
        found = json.loads(read_bytes(folder / RECORD_FOLDER / MANIFEST, MAX_BYTES))
        return {str(name): str(value) for name, value in found.items()}
    except (FileNotFoundError, BadInput, ValueError, AttributeError, RecursionError):
        return {}


def _rows(folder: Path, metadata: Path) -> Iterator[tuple[str, str]]:
    try:
        text = read_bytes(metadata / "RECORD", MAX_BYTES).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, BadInput):
        return
    for row in csv.reader(text.splitlines()):
        if len(row) > 1 and row[1]:
            yield os.path.relpath(os.path.normpath(metadata.parent / row[0]), folder), row[1]


def _files(folder: Path) -> Iterator[str]:
    """List every file and symlink of an overlay but the tool's records and bytecode, relative to it."""
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        hidden = {_CACHE, *links, *([RECORD_FOLDER] if os.path.samefile(here, folder) else [])}
        folders[:] = [name for name in folders if name not in hidden]
        yield from (os.path.relpath(os.path.join(here, name), folder) for name in (*names, *links))


def _unknown(folder: Path, known: set[str], new: Path | None) -> Iterator[str]:
    """List the files to look at; of a folder in which nothing is known the folder alone, and a slash."""
    holding = {str(parent) for name in known for parent in Path(name).parents}
    reported: set[str] = set()
    for name in _files(folder):
        parents = [str(parent) for parent in reversed(Path(name).parents)][1:]
        alone = next((top for top in parents if top not in holding and not (new and (new / top).is_dir())), None)
        if alone is None:
            yield name
        elif alone not in reported:
            reported.add(alone)
            yield f"{alone}/"


def _differs(folder: Path, name: str, expected: str | None, new: Path | None) -> bool:
    if name.endswith("/"):
        return True
    if new and (new / name).is_file() and (new / name).samefile(folder / name):  # by UV_LINK_MODE=hardlink
        return False
    if _sum(folder / name, (expected or "").partition("=")[0]) == expected:
        return False
    return new is None or not os.path.lexists(new / name) or _sum(new / name) != _sum(folder / name)


def _sum(path: Path, kind: str = "sha256") -> str:
    """Sum up a file as a RECORD writes it, or say where a symlink leads; empty of what cannot be read."""
    try:
        if path.is_symlink():
            return f"link:{os.readlink(path)}"
        digest = hashlib.new(kind or "sha256")
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            if not path.is_file():
                return ""
            for chunk in iter(lambda: stream.read(1 << 20), b""):
                digest.update(chunk)
    except (OSError, ValueError):
        return ""
    return f"{digest.name}={base64.urlsafe_b64encode(digest.digest()).rstrip(b'=').decode()}"

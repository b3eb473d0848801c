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
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.files import read_bytes
from uenvtool.venv.base import installed
from uenvtool.venv.discovery import RECORD_FOLDER
from uenvtool.venv.record import read_record

MANIFEST = "files.json"
MAX_BYTES = 50_000_000
READERS = 8
"""Files that are read at the same time: a parallel filesystem answers several as fast as one."""
_CACHE = "__pycache__"
_AT_TOP = {_CACHE, RECORD_FOLDER, ".lock"}
"""Names that are not looked at: bytecode, the tool's records, what `uv pip` leaves."""
_SITES = "lib/python3*/site-packages"


@dataclass(frozen=True, slots=True)
class Foreign:
    """What in an overlay is not the tool's: packages, by name, with their version; names below the overlay.

    whole: the packages of the tool's own that are as they were installed, normalized name to files below the overlay.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)

    def shown(self, most: int = 8) -> list[str]:
        """List all of it, or so many and how many more."""
        every = [*(f"{name} {version}" for name, version in sorted(self.packages.items())), *self.names]
        return every if len(every) <= most else [*every[:most], f"{len(every) - most} more"]

    def __bool__(self) -> bool:
        return bool(self.packages or self.names)


@dataclass(frozen=True, slots=True)
class _Row:
    """What is known of a file: its sum as a RECORD writes it, its size; -1 if nobody noted it."""

    sum: str
    size: int = -1


def manifest_text(folder: Path) -> str:
    """Write the manifest of an overlay that the tool has just built."""
    records = (path for site in folder.glob(_SITES) for path in site.glob("*.dist-info"))
    recorded = {name for path in records for name, _ in _rows(folder, path)}
    sums = {name: _sum(folder / name) for name in _files(folder) if name not in recorded}
    return json.dumps(sums, indent=1, sort_keys=True) + "\n"


def is_own(folder: Path) -> bool:
    """Tell if all that is in a folder is an overlay of this tool's."""
    try:
        record = read_record(folder) if folder.is_dir() and not folder.is_symlink() else None
        return record is not None and not foreign(folder, record.versions)
    except BadInput:
        return False


def foreign(folder: Path, versions: Mapping[str, str]) -> Foreign:
    """Find what is in an overlay and not by this tool: packages that pip brought, files and changes of the user's.

    versions: the packages that the tool installed there.

    A package's file that is as large as it was, and older than the manifest, is taken for the one that was installed.
    Of an overlay without a manifest, as one that was unpacked from its image, nobody can tell: the manifest is named.
    """
    own, made = _manifest(folder)
    if not own:
        return Foreign(names=(f"perhaps any file ({RECORD_FOLDER}/{MANIFEST} is missing or damaged)",))
    packages: dict[str, str] = {}
    theirs: set[str] = set()
    known = {name: [_Row(text)] for name, text in own.items()}
    of_package: dict[str, Sequence[str]] = {}
    for site in folder.glob(_SITES):
        for name, package in installed(site).items():
            record = os.path.relpath(os.path.join(package.metadata, "RECORD"), folder)
            rows = dict(_rows(folder, Path(package.metadata)))
            if versions.get(name) == package.version and own.get(record) == _sum(folder / record):
                of_package[name] = (record, *rows)
                for file, row in rows.items():
                    known.setdefault(file, []).append(row)  # two packages can have one file: it is the last one's
            else:
                packages[package.name] = package.version
                theirs.update((*rows, record))
    present = set(_files(folder))
    whole = {name for name, rows in known.items() if name in present and _is_as_old(f"{folder}/{name}", rows, made)}
    suspects = sorted((present & known.keys()) - whole)
    with ThreadPoolExecutor(READERS) as pool:
        same = pool.map(lambda name: _has_sum(folder / name, known[name]), suspects)
        whole |= {name for name, has_sum in zip(suspects, same, strict=True) if has_sum}
    unknown = _by_folder(present - whole - theirs, {*known, *theirs})
    kept = {
        name: tuple(file for file in files if file in whole)
        for name, files in of_package.items()
        if all(file in whole or _CACHE in file for file in files)
    }
    return Foreign(packages, tuple(sorted(unknown)), kept)


def _manifest(folder: Path) -> tuple[dict[str, str], int]:
    """Read the manifest of an overlay, and when it was written, in ns; empty if it is not there or cannot be read."""
    path = folder / RECORD_FOLDER / MANIFEST
    try:
        found = json.loads(read_bytes(path, MAX_BYTES))
        return {str(name): str(value) for name, value in found.items()}, path.stat().st_mtime_ns
    except (FileNotFoundError, BadInput, ValueError, AttributeError, RecursionError):
        return {}, 0


def _rows(folder: Path, metadata: Path) -> Iterator[tuple[str, _Row]]:
    try:
        text = read_bytes(metadata / "RECORD", MAX_BYTES).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, BadInput):
        return
    site = os.path.relpath(metadata.parent, folder)
    for row in csv.reader(text.splitlines()):
        if len(row) > 1 and row[1]:
            size = int(row[2]) if row[2:] and row[2].isdecimal() else -1
            yield os.path.normpath(f"{site}/{row[0]}"), _Row(row[1], size)


def _files(folder: Path) -> Iterator[str]:
    """List every file and symlink of an overlay but the tool's records and bytecode, relative to it."""
    for here, folders, names in os.walk(folder):
        below = os.path.relpath(here, folder)
        hidden = _AT_TOP if below == "." else {_CACHE}
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        folders[:] = [name for name in folders if name not in {*hidden, *links}]
        yield from (os.path.normpath(f"{below}/{name}") for name in (*names, *links) if name not in hidden)


def _by_folder(names: Collection[str], known: Collection[str]) -> Iterator[str]:
    """List names; of a folder in which nothing is known the folder alone, and a slash."""
    folders = map(Path, {os.path.dirname(name) for name in known})
    holding = {str(parent) for folder in folders for parent in (folder, *folder.parents)}
    reported: set[str] = set()
    for name in names:
        parents = [str(parent) for parent in reversed(Path(name).parents)][1:]
        alone = next((f"{top}/" for top in parents if top not in holding), name)
        if alone not in reported:
            reported.add(alone)
            yield alone


def _is_as_old(path: str, rows: Sequence[_Row], made: int) -> bool:
    status = os.lstat(path)
    is_old = stat.S_ISREG(status.st_mode) and status.st_mtime_ns < made
    return is_old and any(row.size == status.st_size for row in rows)


def _has_sum(path: Path, rows: Sequence[_Row]) -> bool:
    return any(_sum(path, row.sum.partition("=")[0]) == row.sum for row in rows)


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

"""Finds the packages and files in an overlay that uenvtool did not install or that have changed since.

A package's RECORD contains the checksums of its files (packaging.python.org, recording installed packages). The
manifest in PATH/.uenvtool/ contains the checksums of all other files and of each RECORD. Bytecode is ignored because
Python rewrites it.
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
from uenvtool.core.words import listed
from uenvtool.venv.base import installed
from uenvtool.venv.discovery import RECORD_FOLDER
from uenvtool.venv.record import read_record

MANIFEST = "files.json"
MAX_BYTES = 50_000_000
READERS = 8
"""The number of files that are read in parallel; a parallel filesystem answers several reads as fast as one."""
_CACHE = "__pycache__"
_AT_TOP = {_CACHE, RECORD_FOLDER, ".lock"}
"""Names that are ignored: bytecode, uenvtool's records, and the lock file that `uv pip` leaves."""
_SITES = "lib/python3*/site-packages"
_Row = tuple[str, int]
"""The checksum of a file in the form of a RECORD, and its size, or -1 if the size is not recorded."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """The packages (name -> version) and the files in an overlay that uenvtool did not install or that have changed.

    whole: the unchanged packages that uenvtool installed, normalized name -> files. Paths are relative to the overlay.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)

    def shown(self) -> str:
        """Return the first packages and files for a message, and the number of the others."""
        return listed([*(f"{name} {version}" for name, version in sorted(self.packages.items())), *self.names], 8)

    def __bool__(self) -> bool:
        return bool(self.packages or self.names)


def manifest_text(directory: Path) -> str:
    """Return the manifest of a new overlay: a JSON object of file names and checksums."""
    records = (path for site in directory.glob(_SITES) for path in site.glob("*.dist-info"))
    recorded = {name for path in records for name, _ in _rows(directory, path)}
    checksums = {name: _checksum(directory / name) for name in _files(directory) if name not in recorded}
    return json.dumps(checksums, indent=1, sort_keys=True) + "\n"


def is_own(directory: Path) -> bool:
    """Return whether a directory is an overlay that contains only files that uenvtool installed."""
    try:
        record = read_record(directory) if directory.is_dir() and not directory.is_symlink() else None
        return record is not None and not foreign(directory, record.versions)
    except BadInput:
        return False


def foreign(directory: Path, versions: Mapping[str, str]) -> Foreign:
    """Return the packages and files that another tool or the user added to an overlay or changed in it.

    versions: the packages that uenvtool installed. A package's file counts as unchanged if it has its recorded size and
    is older than the manifest. The result names the manifest if it is missing, as in an overlay unpacked from an image.
    """
    manifest, written_at = _manifest(directory)
    if not manifest:
        return Foreign(names=(f"possibly any file ({RECORD_FOLDER}/{MANIFEST} is missing or damaged)",))
    packages: dict[str, str] = {}
    foreign_files: set[str] = set()
    known_files = {name: [(text, -1)] for name, text in manifest.items()}
    of_package: dict[str, Sequence[str]] = {}
    for site in directory.glob(_SITES):
        for name, package in installed(site).items():
            record = os.path.relpath(os.path.join(package.metadata, "RECORD"), directory)
            rows = dict(_rows(directory, Path(package.metadata)))
            if versions.get(name) == package.version and manifest.get(record) == _checksum(directory / record):
                of_package[name] = (record, *rows)
                for file, row in rows.items():
                    known_files.setdefault(file, []).append(row)  # if two packages contain a file, the last one wins
            else:
                packages[package.name] = package.version
                foreign_files.update((*rows, record))
    present = set(_files(directory))
    known_present = {name: rows for name, rows in known_files.items() if name in present}
    whole = {name for name, rows in known_present.items() if _is_as_old(f"{directory}/{name}", rows, written_at)}
    suspects = sorted(known_present.keys() - whole)
    with ThreadPoolExecutor(READERS) as pool:
        have_checksum = pool.map(lambda name: _has_checksum(directory / name, known_files[name]), suspects)
        whole |= {name for name, has_checksum in zip(suspects, have_checksum, strict=True) if has_checksum}
    unknown = _by_directory(present - whole - foreign_files, {*known_files, *foreign_files})
    unchanged_packages = {
        name: tuple(file for file in files if file in whole)
        for name, files in of_package.items()
        if all(file in whole or _CACHE in file for file in files)
    }
    return Foreign(packages, tuple(sorted(unknown)), unchanged_packages)


def _manifest(directory: Path) -> tuple[dict[str, str], int]:
    path = directory / RECORD_FOLDER / MANIFEST
    try:
        checksums = json.loads(read_bytes(path, MAX_BYTES))
        return {str(name): str(value) for name, value in checksums.items()}, path.stat().st_mtime_ns
    except (FileNotFoundError, BadInput, ValueError, AttributeError, RecursionError):
        return {}, 0


def _rows(directory: Path, metadata: Path) -> Iterator[tuple[str, _Row]]:
    try:
        text = read_bytes(metadata / "RECORD", MAX_BYTES).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, BadInput):
        return
    site = os.path.relpath(metadata.parent, directory)
    for row in csv.reader(text.splitlines()):
        if len(row) > 1 and row[1]:
            size = int(row[2]) if row[2:] and row[2].isdecimal() else -1
            yield os.path.normpath(f"{site}/{row[0]}"), (row[1], size)


def _files(directory: Path) -> Iterator[str]:
    for current, directories, names in os.walk(directory):
        relative = os.path.relpath(current, directory)
        ignored = _AT_TOP if relative == "." else {_CACHE}
        links = [name for name in directories if os.path.islink(os.path.join(current, name))]
        directories[:] = [name for name in directories if name not in {*ignored, *links}]
        yield from (os.path.normpath(f"{relative}/{name}") for name in (*names, *links) if name not in ignored)


def _by_directory(names: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield the names, except that a directory without known files is yielded once, as its name with a slash."""
    directories = map(Path, {os.path.dirname(name) for name in known})
    known_directories = {str(parent) for directory in directories for parent in (directory, *directory.parents)}
    reported: set[str] = set()
    for name in names:
        parents = [str(parent) for parent in reversed(Path(name).parents)][1:]
        reported_name = next((f"{top}/" for top in parents if top not in known_directories), name)
        if reported_name not in reported:
            reported.add(reported_name)
            yield reported_name


def _is_as_old(path: str, rows: Sequence[_Row], written_at: int) -> bool:
    status = os.lstat(path)
    is_old = stat.S_ISREG(status.st_mode) and status.st_mtime_ns < written_at
    return is_old and any(size == status.st_size for _, size in rows)


def _has_checksum(path: Path, rows: Sequence[_Row]) -> bool:
    return any(_checksum(path, checksum.partition("=")[0]) == checksum for checksum, _ in rows)


def _checksum(path: Path, kind: str = "sha256") -> str:
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

"""Finds the packages and files in an overlay that uenvtool did not install or that have changed since.

A package's RECORD contains the checksums of its files (packaging.python.org, recording installed packages). The
manifest in PATH/.uenvtool/ contains the checksums of the files that no RECORD lists correctly, and of each RECORD.
Bytecode is ignored because Python rewrites it.
"""

from __future__ import annotations

import base64
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
from uenvtool.core.limits import limited
from uenvtool.core.words import listed
from uenvtool.venv.base import RECORD_FOLDER, installed, record_rows
from uenvtool.venv.overlay import OWN
from uenvtool.venv.record import read_record

MANIFEST = "files.json"
SHA256 = "sha256"
MAX_BYTES = 50_000_000
READERS = 8
"""The number of files that are read in parallel; a parallel filesystem answers several reads as fast as one."""
_CACHE = "__pycache__"
_AT_TOP = {_CACHE, RECORD_FOLDER, ".lock"}
"""Names that are ignored: bytecode, uenvtool's records, and the lock file that `uv pip` leaves."""
_SITES = "lib/python3*/site-packages"


@dataclass(frozen=True, slots=True)
class Foreign:
    """The packages (name -> version) and the files in an overlay that uenvtool did not install or that have changed.

    whole: the files of each unchanged package that uenvtool installed and whose RECORD lists all of its files, by
    normalized name. checksums: the checksum of each file. Paths are relative to the overlay.
    """

    packages: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    whole: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)
    checksums: Mapping[str, str] = field(default_factory=dict, compare=False)

    def shown(self) -> str:
        return listed([*(f"{name} {version}" for name, version in sorted(self.packages.items())), *self.names], 8)

    def __bool__(self) -> bool:
        return bool(self.packages or self.names)


def manifest_text(directory: Path, known: Mapping[str, str]) -> str:
    """Return the manifest of a new overlay: a JSON object of file names and checksums.

    known: the checksums of files that are already computed, by file name.
    """
    records = (path for site in directory.glob(_SITES) for path in site.glob("*.dist-info"))
    recorded = {row for path in records for row in _rows(directory, path).items()}
    checksums = {**_checksums(directory, [name for name in _files(directory) if name not in known]), **known}
    listed_wrong = {name: checksum for name, checksum in checksums.items() if (name, checksum) not in recorded}
    return json.dumps(listed_wrong, indent=1, sort_keys=True) + "\n"


def is_own(directory: Path) -> bool:
    """Return whether a directory is an overlay that contains only files that uenvtool installed."""
    try:
        record = read_record(directory) if directory.is_dir() and not directory.is_symlink() else None
        return record is not None and not foreign(directory, record.versions)
    except BadInput:
        return False


def foreign(directory: Path, versions: Mapping[str, str]) -> Foreign:
    """Return the packages and files that another tool or the user added to an overlay or changed in it.

    versions: the packages that uenvtool installed. The content of each file is compared, because a tool that keeps
    dates and sizes can change it. The result names the manifest if it is missing, as in an overlay unpacked from an
    image.
    """
    manifest = _manifest(directory)
    if not manifest:
        return Foreign(names=(f"possibly any file ({RECORD_FOLDER}/{MANIFEST} is missing or damaged)",))
    packages: dict[str, str] = {}
    foreign_files: set[str] = set()
    known_files = {name: [text] for name, text in manifest.items()}
    of_package: dict[str, Sequence[str]] = {}
    checksums = _checksums(directory, list(_files(directory)))
    sites = list(directory.glob(_SITES))
    for site in sites:
        for name, package in installed(site).items():
            record = os.path.relpath(os.path.join(package.metadata, "RECORD"), directory)
            rows = _rows(directory, Path(package.metadata))
            if (
                versions.get(name) == package.version
                and record in manifest
                and manifest[record] == checksums.get(record)
            ):
                of_package[name] = tuple(dict.fromkeys((record, *rows)))
                for file, checksum in rows.items():
                    known_files.setdefault(file, []).append(checksum)  # if two packages contain a file, the last wins
            else:
                packages[package.name] = package.version
                foreign_files.update((*rows, record))
    present, known_names = checksums.keys(), known_files.keys() | foreign_files
    whole = {name for name in present & known_files.keys() if _fits(directory, name, checksums, known_files[name])}
    unknown = _by_directory(present - whole - foreign_files, known_names)
    unchanged_packages = {
        name: tuple(file for file in files if file in whole)
        for name, files in of_package.items()
        if all(file in whole or _CACHE in file for file in files)
    }
    if _unlisted(manifest, sites, directory, of_package):
        unchanged_packages = {}
    return Foreign(packages, tuple(sorted(unknown)), unchanged_packages, checksums)


def _unlisted(
    manifest: Collection[str], sites: Collection[Path], directory: Path, of_package: Mapping[str, Sequence[str]]
) -> set[str]:
    # uv installs all files of a wheel, including those that its RECORD does not list. Their package is then unknown.
    listed_files = {file for files in of_package.values() for file in files}
    own = {f"{site.relative_to(directory)}/{name}" for site in sites for name in OWN}
    places = tuple(f"{site.relative_to(directory)}/" for site in sites)
    return {name for name in manifest if name.startswith(places)} - listed_files - own


def _manifest(directory: Path) -> dict[str, str]:
    path = directory / RECORD_FOLDER / MANIFEST
    try:
        with limited(str(path)):
            return {str(name): str(value) for name, value in json.loads(read_bytes(path, MAX_BYTES)).items()}
    except (FileNotFoundError, BadInput, ValueError, AttributeError):
        return {}


def _rows(directory: Path, metadata: Path) -> dict[str, str]:
    """Return the checksums in a RECORD by file name; a file without a checksum has an empty string."""
    site = os.path.relpath(metadata.parent, directory)
    return {os.path.normpath(f"{site}/{row[0]}"): "".join(row[1:2]) for row in record_rows(str(metadata))}


def _files(directory: Path) -> Iterator[str]:
    for current, directories, names in os.walk(directory):
        relative = os.path.relpath(current, directory)
        ignored = _AT_TOP if relative == "." else {_CACHE}
        links = [name for name in directories if os.path.islink(os.path.join(current, name))]
        directories[:] = [name for name in directories if name not in {*ignored, *links}]
        yield from (os.path.normpath(f"{relative}/{name}") for name in (*names, *links) if name not in ignored)


def _by_directory(names: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield the names, but combine the files of a directory without known files into its name with a slash."""
    directories = map(Path, {os.path.dirname(name) for name in known})
    known_directories = {str(parent) for directory in directories for parent in (directory, *directory.parents)}
    reported: set[str] = set()
    for name in names:
        parents = [str(parent) for parent in reversed(Path(name).parents)][1:]
        reported_name = next((f"{top}/" for top in parents if top not in known_directories), name)
        if reported_name not in reported:
            reported.add(reported_name)
            yield reported_name


def _fits(directory: Path, name: str, checksums: Mapping[str, str], known: Sequence[str]) -> bool:
    # A RECORD may contain another kind of checksum than sha256.
    return checksums[name] in known or any(
        kind != SHA256 and _checksum(f"{directory}/{name}", kind) == checksum
        for checksum in known
        if (kind := checksum.partition("=")[0]) and "=" in checksum
    )


def _checksums(directory: Path, names: Sequence[str]) -> dict[str, str]:
    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip(names, pool.map(lambda name: _checksum(f"{directory}/{name}"), names), strict=True))


def _checksum(path: str, kind: str = SHA256) -> str:
    try:
        digest = hashlib.new(kind)
        if stat.S_ISLNK(os.lstat(path).st_mode):
            return f"link:{os.readlink(path)}"
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            while chunk := os.read(descriptor, 1 << 20):
                digest.update(chunk)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return ""
    return f"{digest.name}={base64.urlsafe_b64encode(digest.digest()).rstrip(b'=').decode()}"

"""Records the directories that packages were built from, and finds the files in them that have changed since then.

uv builds such a package again only if its pyproject.toml or setup.py is newer (crate uv-cache-info). uenvtool therefore
makes uv build it in each run. The recorded checksums show whether an overlay or its image has the current code.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import UenvtoolError
from uenvtool.core.files import opened

SHAPE = {"name": str, "directory": str, "commit": str, "files": {}}
"""The shape of a recorded directory. files: the checksum of each file, by its path in the directory."""
DIRTY = "-dirty"
"""The end of a commit if the package contains uncommitted changes, as `git describe --dirty` writes it."""
LARGEST = 16 << 20
"""Bytes. Only the size of a larger file is compared."""
MOST_ENTRIES = 20_000
"""The number of directory entries to read outside of the Python packages, because a project can contain its data."""
_BUILD_FILES = {
    *("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "hatch_build.py", "requirements.txt"),
    *("CMakeLists.txt", "meson.build", "Cargo.toml", "build.rs"),
}
_CODE = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".pxd", ".pyx", ".rs", ".f90", ".hip")
_NOT_INSTALLED = {
    *("ci", "debian", "doc", "docs", "documentation", "manpages", "news", "newsfragments", "changelog", "test"),
    *("tests", "unit_test", "unit_tests", "example", "examples", "scripts", "tools", "util", "utils", "benchmark"),
    *("benchmarks", "exercise", "exercises", "htmlcov", "tasks", "fabfile", "site_scons"),
}
"""The directories that setuptools does not install as packages (setuptools/discovery.py, FlatLayoutPackageFinder)."""
_OUTPUT = {"__pycache__", "build", "dist", "node_modules"}
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=all")
_HEAD = "# branch.oid "
_OF_BUILD = re.compile(r"\.egg-info/|__pycache__/")
MOST_NAMES = 500
"""The number of paths that are passed to git."""


def recorded(directories: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the record of each directory with its commit and checksums. directories: package name -> directory."""
    return [
        {"name": name, "directory": directory, "commit": _commit(Path(directory)), "files": _checksums(Path(directory))}
        for name, directory in sorted(directories.items())
    ]


def changed_files(sources: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the files that have changed since the record, by package name, for directories that still exist here."""
    changed = {}
    for source in sources:
        directory, old = source["directory"], source["files"]
        if os.path.isdir(directory):
            new = _checksums(Path(directory))
            names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            if names:
                changed[source["name"]] = tuple(os.path.join(directory, name) for name in names)
    return changed


def _checksums(directory: Path) -> dict[str, str]:
    return {os.path.relpath(path, directory): _checksum(path) for path in sorted(_files(directory))}


def _checksum(path: str) -> str:
    try:
        with opened(Path(path)) as stream:
            size = os.fstat(stream.fileno()).st_size
            return f"size {size}" if size > LARGEST else hashlib.sha256(stream.read()).hexdigest()[:16]
    except (OSError, UenvtoolError):
        return ""


def _files(directory: Path) -> Iterator[str]:
    packages = _packages(directory)
    for package in packages:
        yield from _below(package)
    waiting, entries_left = deque([os.fspath(directory)]), MOST_ENTRIES
    while waiting and entries_left > 0:
        entries = _entries(waiting.popleft())
        entries_left -= len(entries)
        for entry in entries:
            is_code = entry.name in _BUILD_FILES or entry.name.endswith(_CODE)
            if entry.is_file() and (is_code or (entry.name.endswith(".py") and not packages)):
                yield entry.path
            elif entry.is_dir(follow_symlinks=False) and _may_be_source(entry) and entry.path not in packages:
                waiting.append(entry.path)


def _packages(directory: Path) -> set[str]:
    """Return the directories of a project that contain its Python packages: src, or the ones that have __init__.py."""
    tops = [each for each in _entries(directory) if each.is_dir() and _may_be_source(each)]
    tops = [top for top in tops if top.name not in _NOT_INSTALLED]
    found = {top.path for top in tops if top.name == "src" or _is_package(top)}
    inner = (each for top in tops if top.path not in found for each in _entries(top.path) if each.is_dir())
    return found | {each.path for each in inner if _may_be_source(each) and _is_package(each)}


def _below(package: str) -> Iterator[str]:
    for current, names, files in os.walk(package):
        names[:] = [name for name in names if not _is_output(name)]
        yield from (
            os.path.join(current, name) for name in files if not name.endswith((".pyc", "~")) and name[0] != "."
        )


def _is_package(entry: os.DirEntry[str]) -> bool:
    return os.path.isfile(os.path.join(entry.path, "__init__.py"))


def _is_output(name: str) -> bool:
    return name.startswith(".") or name in _OUTPUT or name.endswith(".egg-info")


def _may_be_source(entry: os.DirEntry[str]) -> bool:
    return not _is_output(entry.name) and not os.path.isfile(os.path.join(entry.path, "pyvenv.cfg"))


def _entries(directory: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _commit(directory: Path) -> str:
    packages = [os.path.relpath(path, directory) for path in _packages(directory)]
    others = (os.path.relpath(path, directory) for path in _files(directory))
    names = [*packages, *(name for name in others if not name.startswith(tuple(f"{each}/" for each in packages)))]
    git = ["git", "-C", str(directory), "--literal-pathspecs"]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        tracked = processes.ask([*git, "ls-files", "--", *names[:MOST_NAMES]], env=environ)
        status = processes.ask([*git, *_STATUS, "--", *names[:MOST_NAMES]], env=environ)
    except UenvtoolError:
        return ""
    lines = status.stdout.splitlines()
    head = next((line.removeprefix(_HEAD) for line in lines if line.startswith(_HEAD)), "")
    if status.code != 0 or not tracked.stdout or re.fullmatch("[0-9a-f]+", head) is None:
        return ""
    is_dirty = any(not line.startswith("#") and not _OF_BUILD.search(line) for line in lines)
    return f"{head}{DIRTY if is_dirty else ''}"

"""Fills and removes directories that no other process reads yet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from uenvtool.core.files.atomic import as_bytes, write_errors


def fill(folder: Path, contents: Mapping[str, str | bytes], executable: Collection[str] = ()) -> None:
    """Write files, not atomically, into a directory that no other process reads yet."""
    with write_errors(folder):
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(as_bytes(content))
            if name in executable:
                mode = path.stat().st_mode
                path.chmod(mode | (mode & 0o444) >> 2)


def fill_from(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write one large file in chunks, in a directory that no other process reads yet."""
    with write_errors(path), open(path, "wb") as stream:
        stream.writelines(chunks)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that appends one line to a log, so that the log of a killed run contains all earlier lines."""
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", errors="backslashreplace", buffering=1) as stream:
            yield lambda line: print(line, file=stream)


def link(path: Path, target: str) -> None:
    """Create or replace a symlink in a directory that no other process reads yet."""
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def take_files(old: Path, new: Path, names: Iterable[str], *, linked: bool) -> set[str]:
    """Copy files with their timestamps into a directory that no other process reads yet; return the copied names.

    linked: create hard links instead of copies where the filesystem supports them. Files that are missing in the old
    directory or already exist in the new one are skipped.
    """
    with write_errors(new):
        return {name for name in names if _taken(f"{old}/{name}", f"{new}/{name}", linked=linked)}


def _taken(source: str, target: str, *, linked: bool) -> bool:
    import shutil

    if not linked and (os.path.lexists(target) or not os.path.isfile(source)):
        return False
    try:
        (os.link if linked else shutil.copy2)(source, target)
    except FileExistsError:
        return False
    except FileNotFoundError:
        if os.path.isdir(os.path.dirname(target)) or not os.path.isfile(source):
            return False
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return _taken(source, target, linked=linked)
    except OSError:  # the file belongs to another user, or the filesystem has no links between directories
        if not linked:
            raise
        return _taken(source, target, linked=False)
    return True


def remove_tree(path: Path) -> None:
    """Remove a file or directory that uenvtool owns, including read-only files in it."""
    import shutil

    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
        return

    def make_writable(remove: Callable[[str], object], name: str, _why: object) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(name), 0o700)
            remove(name)

    shutil.rmtree(path, onerror=make_writable)

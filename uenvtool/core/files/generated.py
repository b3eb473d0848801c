"""Manages directories of generated files, whose record always states which files uenvtool wrote.

The record `.uenvtool.json` contains the digest of each file that uenvtool wrote. Before uenvtool replaces files, it
adds the digests of the new files to the record. A killed run therefore leaves no file of unknown origin, and the next
run completes or removes its files. A file belongs to somebody else if it is not in the record or if its content
differs from the record.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from uenvtool.core.errors import AnswerIsNo, BadInput, Position, Problem
from uenvtool.core.files.atomic import as_bytes, locked, name_beside, write_all
from uenvtool.core.files.reading import read_bytes
from uenvtool.core.limits import limited

RECORD = ".uenvtool.json"
TOLERATED = {".gitignore", RECORD}
"""Files that may exist in a new directory, which is otherwise empty."""
MOST_BYTES = 10_000_000
"""The largest size of a generated file."""
_FIELDS = ("generator", "files", "writing")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The record of the files that uenvtool wrote into a directory.

    files: the sha256 digest of each relative path. writing: the digests of files that an unfinished or killed run
    writes. more: other values that a command records, by name.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Return every file that uenvtool wrote or may have written."""
        return {*self.files, *self.writing}

    def has(self, name: str, content: bytes) -> bool:
        """Return whether a file with this content is unchanged since uenvtool wrote it."""
        return digest(content) in (self.files.get(name), self.writing.get(name))

    def text(self) -> str:
        """Return the record as the text of its file."""
        texts = {name: value for name, value in self.more.items() if isinstance(value, str)}
        data: dict[str, Any] = {"generator": "uenvtool", **texts, "files": dict(sorted(self.files.items()))}
        data |= self.more
        if self.writing:
            data["writing"] = dict(sorted(self.writing.items()))
        return json.dumps(data, indent=1) + "\n"


def digest(content: str | bytes) -> str:
    """Return the sha256 digest of a file's content."""
    return hashlib.sha256(as_bytes(content)).hexdigest()


def read_record(folder: Path) -> Record:
    """Return the record of a directory, empty if the file is missing. Raises BadInput if the file is invalid."""
    path = folder / RECORD
    try:
        with limited(str(path)):
            data: Any = json.loads(read_bytes(path, MOST_BYTES))
            more = {name: value for name, value in data.items() if name not in _FIELDS}
            return Record(files=_digests(data["files"]), writing=_digests(data.get("writing", {})), more=more)
    except FileNotFoundError:
        return Record()
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadInput(
            f"this is not a valid record of the files that uenvtool wrote: {error}",
            Position(str(path)),
            "restore it from version control, or write into another directory with -o",
        ) from error


def content_inside(folder: Path, name: str) -> bytes | None:
    """Return the content of a file in a directory; None if it is missing. Raises BadInput if its path has a symlink."""
    path = folder
    for part in PurePosixPath(name).parts:
        path = path / part
        if path.is_symlink():
            hint = "move the symlink away, or choose another directory with -o: uenvtool does not follow symlinks here"
            raise BadInput(f"{path} is a symlink", hint=hint)
    if not os.path.lexists(path):
        return None
    try:
        return read_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        return None


def check_generated(
    folder: Path,
    expected: Mapping[str, str],
    *,
    again: str,
    kept: Collection[str] = (),
    strays: Collection[str] = (),
    remarks: Collection[str] = (),
) -> None:
    """Raise AnswerIsNo, with the diff, if a directory of generated files does not match its inputs.

    expected: the text of each relative name. again: the command that generates the directory. kept: recorded names that
    may be absent from `expected`. strays: names of leftover files that are not in the record. remarks: lines about
    other problems. A run that was killed while writing is also a problem.
    """
    if not os.path.lexists(folder):
        raise AnswerIsNo(f"{folder} does not exist", hint=f"create it with `{again}`")
    record = read_record(folder)
    recorded = {name for name in record.names - {*expected, *kept} if os.path.lexists(folder / name)}
    unended = ["an earlier run that wrote here did not finish"] if record.writing else []
    left_over = [f"{folder / name} is left over from an earlier run" for name in sorted({*strays, *recorded})]
    lines = [*_differences(expected, folder), *unended, *remarks, *left_over]
    if lines:
        details = "\n".join(lines).rstrip()
        hint = f"generate it again with `{again}`"
        raise AnswerIsNo([Problem(f"{folder} does not match its inputs\n{details}", hint=hint)])


def _differences(expected: Mapping[str, str], folder: Path) -> Iterator[str]:
    import difflib

    for name, text in expected.items():
        path = folder / name
        content = path.read_bytes() if path.is_file() else None
        if content != text.encode():
            was = "/dev/null" if content is None else f"{path} (as it is)"
            present = (content or b"").decode(errors="backslashreplace").split("\n")
            yield from difflib.unified_diff(present, text.split("\n"), was, f"{path} (from its inputs)", lineterm="")


def refuse_foreign(
    folder: Path,
    contents: Mapping[str, str],
    *,
    reserved: Collection[str] = (),
    keep: Collection[str] = (),
    tolerated: Collection[str] = TOLERATED,
    force: bool,
) -> None:
    """Raise BadInput if a run would replace or remove a file that uenvtool did not write or that was changed since.

    contents: the files to write; a file that already has this content is accepted. reserved: names that may be written
    later. keep: recorded names that the run does not change. tolerated: names of other files that may exist in the
    directory. force: allow replacing changed files that uenvtool wrote; files of somebody else are never replaced.
    """
    if not folder.is_dir():
        return
    record = read_record(folder)
    present = dict(_present(folder, {*contents, *reserved, *(record.names - set(keep))}))
    identical = {name for name, content in present.items() if name in contents and content == as_bytes(contents[name])}
    for name in present:
        if name not in record.names and name not in identical:
            raise BadInput(
                f"{folder / name} was not written by uenvtool",
                hint="move it away, or choose another directory with -o; --force does not replace it",
            )
    others = sorted(path.name for path in folder.iterdir() if path.name not in tolerated)
    if not record.names and not identical and others and not force:
        raise BadInput(
            f"{folder} contains other files ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})",
            hint="choose another directory with -o, or write next to them with --force",
        )
    for name, content in sorted(present.items()):
        is_output = name in contents or name in reserved
        if name in identical or record.has(name, content) or (is_output and force):
            continue
        hint = "move or delete this file: uenvtool no longer generates it, and does not delete files that you changed"
        if is_output:
            hint = "make the change in the files from which this file is generated, then replace the file with --force"
        raise BadInput(f"{folder / name} has been changed since uenvtool wrote it", hint=hint)


def write_generated(
    folder: Path,
    contents: Mapping[str, str],
    *,
    keep: Collection[str] = (),
    more: Mapping[str, Any] | None = None,
    first: Iterable[tuple[str, bytes | None]] = (),
) -> None:
    """Write files into a locked directory, and remove the files of earlier runs that are no longer needed.

    The record names the new files before the first file changes, and the final state at the end.
    keep: recorded names that do not change. more: values for the record. first: files to write before the others, or to
    remove (None). Raises ToolFailed if the disk fails or is full; the old files are then unchanged.
    """
    record = read_record(folder)
    present = dict(_present(folder, {*contents, *record.names}))
    owned = {**record.writing, **record.files}
    owned |= {name: digest(content) for name, content in present.items() if record.has(name, content)}
    written = {name: digest(text) for name, text in contents.items()}
    kept = {name: owned[name] for name in keep if name in owned}
    obsolete = [name for name in owned if name not in written and name not in kept]
    more = record.more if more is None else more
    changes: list[tuple[str, str | bytes | None]] = [(RECORD, Record(files={**kept, **written}, more=more).text())]
    if obsolete or any(present.get(name) != as_bytes(text) for name, text in contents.items()):
        before = Record(files=owned, writing=written, more=record.more)
        removed = [name for name in obsolete if name in present and owned[name] == digest(present[name])]
        changes = [(RECORD, before.text()), *first, *((name, None) for name in removed), *contents.items(), *changes]
    write_all(folder, changes, emptied=obsolete)


def write_siblings(folder: Path, contents: Mapping[str, str], *, force: bool = False) -> None:
    """Write files into the user's own directory, next to other files; the first file uses the others.

    Raises BadInput with a diff if uenvtool did not write an existing file, if it was changed since, or if it is not a
    regular file. force: replace changed files and keep a copy of each. If there are several files, the first one does
    not exist until all are written, so that it never runs with old versions of the others.
    """
    with locked(folder, below=False):
        update_siblings(folder, contents, force=force)


def update_siblings(folder: Path, contents: Mapping[str, str], *, force: bool = False) -> None:
    """Write files like `write_siblings` into a directory that the caller has locked."""
    record = read_record(folder)
    differing = [name for name, text in contents.items() if content_inside(folder, name) != as_bytes(text)]
    first: list[tuple[str, bytes | None]] = []
    for name, content in _present(folder, differing):
        if record.has(name, content):
            continue
        diff = "\n".join(_differences({name: contents[name]}, folder)).rstrip()
        if name not in record.names:
            hint = "move it away, or choose another name with -o; --force does not replace it"
            raise BadInput(f"{folder / name} was not written by uenvtool\n{diff}", hint=hint)
        if not force:
            hint = "choose another name with -o to keep your change, or replace the file with --force"
            raise BadInput(f"{folder / name} has been changed since uenvtool wrote it\n{diff}", hint=hint)
        first.append((_free_name(folder, name).name, content))
    if len(differing) > 1:
        first.append((next(iter(contents)), None))
    last_first = dict(reversed([*contents.items()]))
    write_generated(folder, last_first, keep=record.names - set(contents), first=first)


def _free_name(folder: Path, name: str) -> Path:
    ends = (f".before{number}" for number in ("", *range(1, 10_000)))
    return next(path for path in (folder / name_beside(name, suffix=end) for end in ends) if not path.exists())


def _digests(entries: Any) -> dict[str, str]:
    for name, value in entries.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name in (".", RECORD) or "\0" in name:
            raise ValueError(f"{name!r} is not the name of a file in this directory")
        if not isinstance(value, str):
            raise TypeError(f"the digest of {name!r} is not a text")
    return dict(entries)


def _present(folder: Path, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        content = content_inside(folder, name)
        if content is not None:
            yield name, content

"""A folder of generated files: its record says at every instant which of them are the tool's.

`.uenvtool.json` holds the digest of each file that the tool wrote. Before files are replaced, it also
names what is being written, so that a run that was killed leaves no file whose origin is unknown: the
next one completes or removes it. A file that is not in the record, or has another content than is
recorded, is somebody else's.
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
from uenvtool.core.files.atomic import as_bytes, locked, write_all
from uenvtool.core.files.reading import read_bytes

RECORD = ".uenvtool.json"
TOLERATED = {".gitignore", RECORD}
"""Names that may stand in a folder without making it somebody else's."""
MOST_BYTES = 10_000_000
"""A larger file is none of ours."""
_OWN = ("generator", "files", "writing")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What the tool wrote into a folder.

    files: relative path to sha256. writing: the same of a run that has not ended, or was killed. more:
    what else a command records, by name.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    writing: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Return every file that is, or may be, the tool's."""
        return {*self.files, *self.writing}

    def has(self, name: str, content: bytes) -> bool:
        """Tell if a file with that content is as the tool wrote it."""
        return digest(content) in (self.files.get(name), self.writing.get(name))

    def text(self) -> str:
        """Return the record as its file holds it."""
        texts = {name: value for name, value in self.more.items() if isinstance(value, str)}
        data: dict[str, Any] = {"generator": "uenvtool", **texts, "files": dict(sorted(self.files.items()))}
        data |= self.more
        if self.writing:
            data["writing"] = dict(sorted(self.writing.items()))
        return json.dumps(data, indent=1) + "\n"


def digest(content: str | bytes) -> str:
    """Return the sha256 of a file's content."""
    return hashlib.sha256(as_bytes(content)).hexdigest()


def read_record(folder: Path) -> Record:
    """Return the record of a folder; an empty one if there is none. Raises BadInput if it cannot be read as one."""
    path = folder / RECORD
    try:
        data: Any = json.loads(read_bytes(path, MOST_BYTES))
        more = {name: value for name, value in data.items() if name not in _OWN}
        return Record(files=_digests(data["files"]), writing=_digests(data.get("writing", {})), more=more)
    except FileNotFoundError:
        return Record()
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else error
        raise BadInput(
            f"this record of what uenvtool wrote cannot be read: {why}",
            Position(str(path)),
            "restore it from version control, or write into another folder with -o",
        ) from error


def content_inside(folder: Path, name: str) -> bytes | None:
    """Return the content of a file in a folder; None if there is none. Raises BadInput if a link leads to it."""
    path = folder
    for part in PurePosixPath(name).parts:
        path = path / part
        if path.is_symlink():
            hint = (
                "uenvtool neither reads nor writes through a link here: move it away, or choose another folder with -o"
            )
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
    """Raise AnswerIsNo, with the diff, if a folder of generated files is not what its inputs give.

    expected: relative name to text. again: the command that makes the folder anew. kept: recorded names that need not
    be expected. strays: names that are left over though nobody recorded them. remarks: what else is not as it should
    be, a line each; a run that was killed while it wrote is told too.
    """
    if not os.path.lexists(folder):
        raise AnswerIsNo(f"{folder} is not there", hint=f"`{again}` makes it")
    record = read_record(folder)
    recorded = {name for name in record.names - {*expected, *kept} if os.path.lexists(folder / name)}
    unended = ["a run that wrote here did not end"] if record.writing else []
    left_over = [f"{folder / name} is left over" for name in sorted({*strays, *recorded})]
    lines = [*_differences(expected, folder), *unended, *remarks, *left_over]
    if lines:
        found = "\n".join(lines).rstrip()
        raise AnswerIsNo([Problem(f"{folder} is not what its inputs give\n{found}", hint=f"`{again}` makes it anew")])


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
    tolerated: Collection[str] = TOLERATED,
    force: bool,
) -> None:
    """Refuse to replace or remove what is not the tool's, or was changed since the tool wrote it.

    contents: what will be written; a file that has that content already is taken over. reserved: names
    that may be written later. tolerated: names of others that may stand in the folder. `force` lets the
    tool's own changed files be replaced; somebody else's are never touched. Raises BadInput.
    """
    if not folder.is_dir():
        return
    record = read_record(folder)
    present = dict(_present(folder, {*contents, *reserved, *record.names}))
    identical = {name for name, content in present.items() if name in contents and content == as_bytes(contents[name])}
    for name in present:
        if name not in record.names and name not in identical:
            raise BadInput(
                f"{folder / name} was not written by uenvtool",
                hint="it stays as it is, also with --force: move it away, or choose another folder with -o",
            )
    others = sorted(path.name for path in folder.iterdir() if path.name not in tolerated)
    if not record.names and not identical and others and not force:
        raise BadInput(
            f"{folder} holds other files ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})",
            hint="choose another folder with -o, or write beside them with --force",
        )
    for name, content in sorted(present.items()):
        if name not in identical and not record.has(name, content):
            _refuse_changed(folder / name, is_wanted=name in contents or name in reserved, force=force)


def write_generated(
    folder: Path,
    contents: Mapping[str, str],
    *,
    keep: Collection[str] = (),
    more: Mapping[str, Any] | None = None,
    first: Iterable[tuple[str, bytes | None]] = (),
) -> None:
    """Write files into a folder whose lock is held, and remove those that the tool wrote before and are not wanted.

    The record says what is being written before the first file is touched, and what is there when all is done.

    keep: recorded names that stay as they are. more: for the record. first: what else is written, or removed with None,
    before the files. Raises ToolFailed if the disk does not take them; the old ones are then unchanged.
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
    """Write files into a folder of the user's, beside whatever is there; the first one uses the others.

    Raises BadInput, with what would change, for a file that the tool did not write or that was changed since, and for
    what is no file. `force` replaces the changed ones and keeps a copy of each. Of several
    files the first is gone until all are written, so that it never runs with old ones.
    """
    with locked(folder, below=False):
        record = read_record(folder)
        differing = [name for name, text in contents.items() if content_inside(folder, name) != as_bytes(text)]
        first: list[tuple[str, bytes | None]] = []
        for name, content in _present(folder, differing):
            if record.has(name, content):
                continue
            diff = "\n".join(_differences({name: contents[name]}, folder)).rstrip()
            if name not in record.names:
                hint = "it stays as it is, also with --force: move it away, or choose another name with -o"
                raise BadInput(f"{folder / name} was not written by uenvtool\n{diff}", hint=hint)
            if not force:
                hint = "keep your change: choose another name with -o; or replace it with --force"
                raise BadInput(f"{folder / name} was changed since uenvtool wrote it\n{diff}", hint=hint)
            first.append((_free_name(folder, f"{name}.before").name, content))
        if len(differing) > 1:
            first.append((next(iter(contents)), None))
        last_first = dict(reversed([*contents.items()]))
        write_generated(folder, last_first, keep=record.names - set(contents), first=first)


def _free_name(folder: Path, name: str) -> Path:
    """Return a name in a folder that nobody has: with a number if it has to be."""
    return next(path for path in (folder / f"{name}{end}" for end in ("", *range(1, 10_000))) if not path.exists())


def _digests(found: Any) -> dict[str, str]:
    """Return names with digests, checked: no name leaves the folder."""
    for name, value in found.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name in (".", RECORD) or "\0" in name:
            raise ValueError(f"{name!r} is not the name of a file in this folder")
        if not isinstance(value, str):
            raise TypeError(f"the digest of {name!r} is not a text")
    return dict(found)


def _present(folder: Path, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        content = content_inside(folder, name)
        if content is not None:
            yield name, content


def _refuse_changed(path: Path, *, is_wanted: bool, force: bool) -> None:
    if not is_wanted:
        hint = "the inputs do not give it any more, and it is not removed with your change: move it away"
        raise BadInput(f"{path} was changed since uenvtool wrote it", hint=hint)
    if not force:
        hint = "put the change into the files that it is made from, then replace it with --force"
        raise BadInput(f"{path} was changed since uenvtool wrote it", hint=hint)

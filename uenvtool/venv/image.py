"""Packs an overlay, or any other virtual environment, into an image that can be loaded as a uenv."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.image import bytecode, metadata
from uenvtool.image.metadata import ENV, EXTRA, PACKED, ListUpdate, Uenv, UenvView
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import is_quotable
from uenvtool.image.read import LARGEST_TEXT, refuse_foreign
from uenvtool.image.tree import Entry, Tree, walk
from uenvtool.knowledge.secrets import storable
from uenvtool.venv import howto
from uenvtool.venv.base import RECORD_FOLDER, record_checksum
from uenvtool.venv.howto import VIEW
from uenvtool.venv.info import image_data, require_mountable
from uenvtool.venv.manifest import MANIFEST
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import IMAGE_NOTE, RECORD, read_record
from uenvtool.venv.request import VenvRequest, default_image

MOUNT = "/user-tools"
"""The default mount point of a packed overlay."""
CACHES = frozenset({b"__pycache__"})
LARGEST = 4 << 20
"""Bytes. Larger files are not rewritten, because only scripts and lists contain the path of their environment."""
NOTES = tuple(f"{RECORD_FOLDER}/{name}".encode() for name in (IMAGE_NOTE, MANIFEST))
"""The files that only an unpacked overlay has: the name of its image, and the checksums of its files."""
_SCRIPT = re.compile(
    rb"#!(/[^\n]*/)bin/python[0-9.]*\n|#!/bin/sh\n'''exec' (\"?/[^\n]*/)bin/python[0-9.]*\"? \"\$0\" \"\$@\"\n' '''\n"
)
_MAY_CONTAIN_PATH = re.compile(rb"bin/[^/]+|pyvenv\.cfg|.*\.dist-info/[^/]+|.*\.pth", re.DOTALL)
_RELOCATABLE = b"""#!/bin/sh\n'''exec' "$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@"\n' '''\n"""


@contextlib.contextmanager
def packed(
    directory: Path, target: Path, *, mount: str = MOUNT, epoch: int | None = None, on_note: Callable[[str], None]
) -> Iterator[Packed]:
    """Pack a virtual environment, such as an overlay, into an image next to `target`, which files.publish renames.

    The image contains the directory at its root, bytecode that Python never compares with its source, meta/env.json and
    meta/extra/. The image has been read back and compared with the directory, and the same content gives the same
    bytes. It is removed at the end if it is not published. epoch: the modification time of every file in the image, in
    seconds since 1970. Raises BadInput if the directory is not an environment or uenvtool did not make the target,
    ToolMissing without squashfs-tools, and ToolFailed if the base's Python, the disk or a program fails.
    """
    directory, target = directory.absolute(), target.absolute()
    if not (directory / CONFIG).is_file():
        raise BadInput(f"{directory} is not a virtual environment", hint="create one with `uenvtool venv`")
    require_mountable(mount)
    if directory == target or directory in target.parents:
        raise BadInput(f"{target} is inside the environment to pack", hint="put the image next to the environment")
    programs = find_programs()
    if programs.compression != "zstd":
        on_note("this mksquashfs does not support zstd; the image uses gzip, which is larger and slower to read")
    with files.workplace(target) as work:
        refuse_foreign(target)
        (scratch := work / "scratch").mkdir()
        image = pack(programs, _tree(directory, target.stem, mount, scratch), work / "new", scratch, epoch)
        yield image


def _tree(directory: Path, stem: str, mount: str, scratch: Path) -> Tree:
    omitted = left_out(directory)
    entries = walk(directory, left_out=omitted, skipped=CACHES)
    modules = {
        name: entry.size
        for name, entry in entries.items()
        if entry.kind == "f" and name.endswith(b".py") and is_quotable(name) and not name.startswith(b"bin/")
    }
    compiled = bytecode.gather([directory / "bin" / "python"], directory, modules, scratch)
    texts = {**rewritten(directory, entries, mount), **_meta(directory, metadata.uenv_name(stem, VIEW), mount)}
    return Tree(folder=directory, entries=entries, added={**texts, **compiled}, left_out=omitted, skipped=CACHES)


def _meta(directory: Path, name: str, mount: str) -> dict[bytes, bytes]:
    records = {}
    for path in record_paths(directory):
        if path.is_file() and not path.is_symlink():
            content = files.read_bytes(path, LARGEST_TEXT)
            stored = storable(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            records[f"{EXTRA}/{path.name}".encode()] = stored
            if stored != content:  # older versions recorded logins
                records[f"{RECORD_FOLDER}/{path.name}".encode()] = stored
    record = read_record(directory)
    base = str(record.base.get("name") or "") if record else ""
    sites = [] if record else sorted(directory.glob("lib/python3*/site-packages"))
    site = os.fspath(sites[0].relative_to(directory)) if sites else ""
    return {
        **records,
        ENV.encode(): metadata.env_json(overlay_uenv(name, mount, base=base, site=site)).encode(),
        PACKED.encode(): metadata.packed_json(mount, bytecode="unchecked-hash").encode(),
    }


def record_paths(directory: Path) -> list[Path]:
    """Return the paths of an overlay's record and lock, which are also in its image."""
    return [directory / RECORD_FOLDER / name for name in (RECORD, "pylock.toml")]


def overlay_uenv(name: str, mount: str, *, base: str = "", site: str = "") -> Uenv:
    """Return the uenv metadata of an image that has an overlay at its root.

    The image's only view puts the overlay's commands first on PATH, sets VIRTUAL_ENV, and unsets PYTHONPATH, because
    PYTHONPATH would take precedence over all packages. base: the name of the overlay's base. site: the package
    directory of another tool's environment. The view prepends it to PYTHONPATH, through which that environment's Python
    finds the base's packages.
    """
    on_base = f" on {base}" if base else ""
    view = UenvView(
        description=f"the Python environment{on_base}",
        root=mount,
        activate=f"{mount}/bin/activate",
        lists={
            "PATH": [ListUpdate(op="prepend", paths=[f"{mount}/bin"])],
            "PYTHONPATH": [ListUpdate(op="prepend", paths=[f"{mount}/{site}"]) if site else ListUpdate(op="unset")],
        },
        scalars={"VIRTUAL_ENV": mount, "VIRTUAL_ENV_PROMPT": name},
    )
    description = f"a Python overlay{on_base}, made by uenvtool"
    return Uenv(name=name, description=description, mount=mount, views={VIEW: view}, default_view=VIEW)


@contextlib.contextmanager
def pack_overlay(
    directory: Path, request: VenvRequest, base: Mapping[str, Any], notes: list[str]
) -> Iterator[tuple[files.Replacement, dict[str, Any]]]:
    """Pack an overlay next to the image of a request; yield the replacement to publish and the data for --json.

    base: the base in the overlay's record. notes: receives the limits of mksquashfs. Raises the errors of `packed`.
    """
    target = request.image or default_image(directory)
    mount = request.mount or (image_data(target)["mount"] if target.is_file() else None) or MOUNT
    kept_as = map(target.with_name, previous_names(target.stem, target.suffix))
    previous = next(filter(_may_replace, kept_as)) if request.update and target.is_file() else None
    with packed(directory, target, mount=mount, epoch=_epoch(), on_note=notes.append) as new:
        uses = howto.uses(target, metadata.uenv_name(target.stem, VIEW), mount, base)
        yield (
            files.Replacement(new=new.path, target=target.absolute(), previous=previous),
            {
                "path": str(target.absolute()),
                "bytes": new.bytes,
                "sha256": new.sha256,
                "compression": new.compression,
                "mount": mount,
                "previous": str(previous) if previous else None,
                "use": [*uses],
            },
        )


def previous_names(name: str, suffix: str = "") -> Iterator[str]:
    """Yield candidate names for an old file or directory that is kept, best first."""
    yield f"{name}.previous{suffix}"
    yield from (f"{name}.previous.{number}{suffix}" for number in itertools.count(2))


def _may_replace(image: Path) -> bool:
    try:
        refuse_foreign(image)
    except BadInput:
        return False
    return True


def _epoch() -> int | None:  # https://reproducible-builds.org/specs/source-date-epoch/
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and (not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 1 << 32):
        hint = "set it to seconds since 1970, less than 2^32, for example 0"
        raise BadInput(f"SOURCE_DATE_EPOCH='{text}' is not a valid time for an image", hint=hint)
    return int(text) if text else None


def left_out(directory: Path) -> frozenset[bytes]:
    """Return the files that an image leaves out: unpacked metadata of an image, uv's lock file, and uv_cache.json.

    Raises BadInput if the environment has a `meta` that is not the metadata of an image.
    """
    if os.path.lexists(directory / "meta") and not (directory / PACKED).is_file():
        hint = f"rename it, because an image stores its metadata in meta/, and pack {directory.name} again"
        raise BadInput(f"{directory / 'meta'} cannot be packed", hint=hint)
    names = {b"meta", b".lock", *NOTES}
    for path in directory.glob("lib*/python*/site-packages/*.dist-info/uv_cache.json"):
        names.add(os.fsencode(path.relative_to(directory)))
    return frozenset(names)


def rewritten(directory: Path, entries: Mapping[bytes, Entry], mount: str) -> dict[bytes, bytes]:
    """Return the new contents of the files that contain the directory's path, for an image mounted at `mount`.

    A command then finds the Python next to it. In other files, the mount point replaces the path. A relocatable overlay
    has no such files.
    """
    built_at, quoted = os.fsencode(directory), os.fsencode(shlex.quote(str(directory)))
    files = {}
    for name, text in _texts(directory, entries, _MAY_CONTAIN_PATH.fullmatch):
        if built_at in text or quoted in text:
            files[name] = _moved(text, name, built_at, os.fsencode(mount))
    record_files = {}  # packaging.python.org, recording installed packages
    for name, text in _texts(directory, entries, lambda name: name.endswith(b".dist-info/RECORD")):
        old, site = files.get(name) or text, os.path.dirname(os.path.dirname(name))
        lines = [line for line in old.splitlines(keepends=True) if b"/uv_cache.json," not in line]
        new = b"".join(_record_line(line, site, files) for line in lines)
        if new != old:
            record_files[name] = new
    return {**files, **record_files}


def _texts(
    directory: Path, entries: Mapping[bytes, Entry], is_wanted: Callable[[bytes], object]
) -> Iterator[tuple[bytes, bytes]]:
    for name, entry in entries.items():
        if entry.kind == "f" and entry.size <= LARGEST and is_wanted(name):
            yield name, (directory / os.fsdecode(name)).read_bytes()


def _record_line(line: bytes, site: bytes, rewritten_files: Mapping[bytes, bytes]) -> bytes:
    name, comma, _ = line.partition(b",")
    text = rewritten_files.get(os.path.normpath(os.path.join(site, name))) if comma else None
    if text is None:
        return line
    return b"%s,%s,%d\n" % (name, record_checksum(text).encode(), len(text))


def _moved(text: bytes, name: bytes, built_at: bytes, mount: bytes) -> bytes:
    if name.startswith(b"bin/"):
        script = _SCRIPT.match(text)
        if script and built_at in script[0]:
            text = _RELOCATABLE + text[script.end() :]
        # Some tools quote a path only if they must.
        for quoted in (os.fsencode(shlex.quote(os.fsdecode(built_at))), b"'%s'" % built_at):
            text = text.replace(quoted, os.fsencode(shlex.quote(os.fsdecode(mount))))
    return re.sub(re.escape(built_at) + rb"(?![\w.-])", lambda _match: mount, text)

"""Takes the build folder, and what installers note for themselves, out of an environment that is packed."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.image.metadata import PACKED
from uenvtool.image.tree import Entry
from uenvtool.venv.manifest import MANIFEST
from uenvtool.venv.record import IMAGE_NOTE
from uenvtool.venv.where import RECORD_FOLDER

LARGEST = 4 << 20
"""Bytes; a file that names its environment is a script or a list, not a library."""
NOTES = tuple(f"{RECORD_FOLDER}/{name}".encode() for name in (IMAGE_NOTE, MANIFEST))
"""Of a loose overlay alone: the image that it was packed into, and the sums of its files."""
_SCRIPT = re.compile(
    rb"#!(/[^\n]*/)bin/python[0-9.]*\n|#!/bin/sh\n'''exec' (\"?/[^\n]*/)bin/python[0-9.]*\"? \"\$0\" \"\$@\"\n' '''\n"
)
_MAY_NAME_ITS_PLACE = re.compile(rb"bin/[^/]+|pyvenv\.cfg|.*\.dist-info/[^/]+|.*\.pth", re.DOTALL)
_RELOCATABLE = b"""#!/bin/sh\n'''exec' "$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@"\n' '''\n"""


def left_out(folder: Path) -> frozenset[bytes]:
    """List the names that an image must not hold: the metadata of an image that this was, uv's lock and cache notes.

    Raises BadInput if `meta`, where an image has its metadata, is something else.
    """
    if os.path.lexists(folder / "meta") and not (folder / PACKED).is_file():
        hint = f"an image has its metadata there: give it another name, then pack {folder.name} again"
        raise BadInput(f"{folder / 'meta'} cannot be packed", hint=hint)
    found = {b"meta", b".lock", *NOTES}
    for path in folder.glob("lib*/python*/site-packages/*.dist-info/uv_cache.json"):
        found.add(os.fsencode(path.relative_to(folder)))
    return frozenset(found)


def rewritten(folder: Path, entries: Mapping[bytes, Entry], mount: str) -> dict[bytes, bytes]:
    """Rewrite the files that name the folder, as they have to be in an image that is mounted at `mount`.

    Commands find the Python beside them; everything else gets the mount point. A relocatable overlay
    needs none of this.
    """
    built_at, quoted = os.fsencode(folder), os.fsencode(shlex.quote(str(folder)))
    found = {}
    for name, text in _texts(folder, entries, _MAY_NAME_ITS_PLACE.fullmatch):
        if built_at in text or quoted in text:
            found[name] = _moved(text, name, built_at, os.fsencode(mount))
    records = {}
    for name, text in _texts(folder, entries, lambda name: name.endswith(b".dist-info/RECORD")):
        old, site = found.get(name) or text, os.path.dirname(os.path.dirname(name))
        lines = [line for line in old.splitlines(keepends=True) if b"/uv_cache.json," not in line]
        new = b"".join(_line(line, site, found) for line in lines)
        if new != old:
            records[name] = new
    return {**found, **records}


def _texts(
    folder: Path, entries: Mapping[bytes, Entry], is_wanted: Callable[[bytes], object]
) -> Iterator[tuple[bytes, bytes]]:
    for name, entry in entries.items():
        if entry.kind == "f" and entry.size <= LARGEST and is_wanted(name):
            yield name, (folder / os.fsdecode(name)).read_bytes()


def _line(line: bytes, site: bytes, changed: Mapping[bytes, bytes]) -> bytes:
    """Return a line of a RECORD (packaging.python.org) with the sum of a rewritten file."""
    name, comma, _ = line.partition(b",")
    text = changed.get(os.path.normpath(os.path.join(site, name))) if comma else None
    if text is None:
        return line
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=")
    return b"%s,sha256=%s,%d\n" % (name, digest, len(text))


def _moved(text: bytes, name: bytes, built_at: bytes, mount: bytes) -> bytes:
    if name.startswith(b"bin/"):
        script = _SCRIPT.match(text)
        if script and built_at in script[0]:
            text = _RELOCATABLE + text[script.end() :]
        for quoted in (
            os.fsencode(shlex.quote(os.fsdecode(built_at))),
            b"'%s'" % built_at,
        ):  # some quote only if they must
            text = text.replace(quoted, os.fsencode(shlex.quote(os.fsdecode(mount))))
    return re.sub(re.escape(built_at) + rb"(?![\w.-])", lambda _match: mount, text)

"""What a user reads of an overlay: what it is made of, and how to go on from here."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uenvtool.commands.venv.place import read_image_record
from uenvtool.errors import BadInput
from uenvtool.overlay.outcome import HEADINGS, table_rows
from uenvtool.overlay.record import Record, read_record
from uenvtool.result import Result, Table

if TYPE_CHECKING:
    from uenvtool.commands.venv.make import Made

USES = {
    "uenv": "in a shell",
    "slurm": "in a batch script",
    "edf": "in an EDF of the Container Engine",
    "apptainer": "with Apptainer",
}
"""Where the lines that use an image belong."""


def describe(path: Path) -> dict[str, Any]:
    """An overlay as data, from its folder or its image.

    Raises BadInput where it is no overlay, ToolMissing where an image cannot be read here.
    """
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder", hint="name an image or an overlay's folder")
    if path.is_file():
        return _of_image(path)
    record = read_record(path)
    if record is None:
        raise BadInput(f"{path} is no overlay of uenvtool's", hint="`uenvtool venv PATH` makes one")
    sizes = [entry.lstat() for entry in path.rglob("*") if not entry.is_dir() or entry.is_symlink()]
    return {
        "path": str(path),
        **_of_record(record),
        "files": len(sizes),
        "bytes": sum(each.st_size for each in sizes),
    }


def info(path: Path) -> Result:
    """What an overlay is made of. Raises as `describe` does."""
    data = describe(path)
    facts = _facts(data, data.get("base") or {})
    rows = [
        (each["name"], each["version"], each["how"], ", ".join(each["asked_by"]), each.get("note", ""))
        for each in data.get("packages", ())
    ]
    return Result(
        data=data,
        text="\n".join(f"{name}: {value}" for name, value in facts if value not in ("", None)),
        tables=(Table(headings=HEADINGS, rows=rows),) if rows else (),
    )


def made_result(made: Made) -> Result:
    """What came of an order, to be shown."""
    return Result(
        data=made.data(),
        tables=(Table(headings=HEADINGS, rows=table_rows(made.rows)),) if made.rows else (),
        warnings=made.warnings,
        notes=(*made.notes, *next_lines(made)),
    )


def next_lines(made: Made) -> Iterator[str]:
    """What was made, and the lines that a user goes on with."""
    if made.dry_run:
        yield "nothing was made (--dry-run)"
        return
    if made.base is not None:
        yield f"{shown(made.path)}: {made.base.described()} below it"
        if made.previous:
            yield f"the old one is {shown(made.previous)}"
        yield f"next:\n  {shlex.quote(shown(made.path / 'bin' / 'python'))} script.py"
    if made.image:
        size = made.image["bytes"] / 1e6
        yield f"{made.image['path']}: {size:.1f} MB, {made.image['compression']}, sha256 {made.image['sha256']}"
        if made.image["previous"]:
            yield f"the old one is {made.image['previous']}"
        yield "to use it:"
        for line in made.image["use"]:
            yield "\n".join([f"  {USES[line['use']]}:", *(f"    {each}" for each in line["text"].splitlines())])
            if line["caveat"]:
                yield f"    ({line['caveat']})"


def shown(path: Path) -> str:
    """A path as a user here writes it."""
    here = os.path.relpath(path)
    return here if not here.startswith("..") else str(path)


def _facts(data: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "overlay", data.get("path")
    name = base.get("name") or base.get("python") or "none"
    there = (
        ""
        if data.get("base_is_here", True)
        else " (not here now" + (f"; {base['load']}" if base.get("load") else "") + ")"
    )
    yield "base", f"{name}, Python {base.get('version', '?')}{there}"
    yield "base folders", os.pathsep.join(base.get("folders", ()))
    yield "base fingerprint", base.get("fingerprint")
    yield "asked for", ", ".join(each["text"] for each in data.get("requests", ()))
    yield "overrides", ", ".join(data.get("overrides", ()))
    yield "precedence", data.get("precedence")
    yield "mount", data.get("mount")
    yield "compression", data.get("compression")
    yield "size", f"{data['bytes'] / 1e6:.1f} MB" + (f" in {data['files']} files" if "files" in data else "")


def _of_image(path: Path) -> dict[str, Any]:
    from uenvtool.overlay.packed import info

    record = read_image_record(path)
    return {**info(path).data(), **(_of_record(record) if record else {})}


def _of_record(record: Record) -> dict[str, Any]:
    return {
        "base": dict(record.base),
        "base_is_here": all(map(os.path.isdir, record.base.get("folders", ()))),
        "precedence": record.precedence,
        "requests": [dict(each) for each in record.requests],
        "overrides": list(record.overrides),
        "packages": [dict(each) for each in record.packages],
    }

"""What a user reads of a made overlay: the table, what to know, and the lines to go on with."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from uenvtool.core.result import Result, Table
from uenvtool.venv.outcome import FROM_BASE, HEADINGS, SAME, table_rows
from uenvtool.venv.results import MadeOverlay, shown_path


def result_of(made: MadeOverlay, *, verbose: bool) -> Result:
    """The answer of `uenvtool venv`. verbose: with every package, not only those that changed."""
    listed = [change for change in made.changes if verbose or change.change != SAME]
    return Result(
        data=made.data(),
        tables=(Table(headings=HEADINGS, rows=table_rows(listed)),) if listed else (),
        notes=(*made.notes, *_unlisted(made, len(made.changes) - len(listed)), *_notes(made)),
        warnings=made.warnings,
        next=tuple(_next_lines(made)),
    )


def _unlisted(made: MadeOverlay, count: int) -> Iterator[str]:
    """How many packages the table leaves out."""
    if count:
        base = sum(change.row.how == FROM_BASE for change in made.changes)
        kinds = [f"{number} {kind}" for number, kind in ((count - base, "as before"), (base, "of the base")) if number]
        yield f"not listed: {', '.join(kinds)} (--verbose lists them)"


def _notes(made: MadeOverlay) -> Iterator[str]:
    if made.dry_run:
        yield "nothing was made (--dry-run)"
        return
    if made.base is not None:
        yield f"{shown_path(made.path)} lies on {made.base.described()}"
        if made.previous:
            yield f"the old one is {shown_path(made.previous)}"
    if made.image:
        size = made.image.bytes / 1e6
        yield f"{made.image.path}: {size:.1f} MB, {made.image.compression}, sha256 {made.image.sha256}"
        if made.image.previous:
            yield f"the old one is {made.image.previous}"


def _next_lines(made: MadeOverlay) -> Iterator[str]:
    if made.dry_run:
        return
    if made.base is not None:
        words = [made.started_by, shlex.quote(shown_path(made.path / "bin" / "python")), "script.py"]
        yield " ".join(filter(None, words))
    if made.image:
        yield from use_lines([line.data() for line in made.image.use])


def use_lines(lines: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The lines that use an image, as data, for a reader."""
    for line in lines:
        yield "\n".join([f"{line['use']}:", *(f"  {text}" for text in line["text"].splitlines())])
        if line["caveat"]:
            yield f"  ({line['caveat']})"

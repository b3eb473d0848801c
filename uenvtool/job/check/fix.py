"""Mends the findings of a script that are safe to mend: the edits of their rules, as a new text and as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from uenvtool.job.check.findings import Finding


def fixed(text: str, found: Iterable[Finding]) -> str:
    """Return the text with the edits of the findings; of edits that overlap the first counts."""
    position = 0
    new: list[str] = []
    edits = sorted({edit for finding in found for edit in finding.edits})
    for start, end, replacement in edits:
        if start >= position:
            new += (text[position:start], replacement)
            position = end
    return "".join(new) + text[position:]


def difference(name: str, old: str, new: str) -> str:
    """Return the change as a unified diff; empty if there is none."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"{name} (now)", f"{name} (mended)", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

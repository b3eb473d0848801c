"""Findings as text for people; pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

from uenvtool.check.findings import Flaw
from uenvtool.core.result import Line
from uenvtool.core.words import wrapped
from uenvtool.knowledge.rule import ERROR, HINT, LEVELS, WARNING

COLOURS = {ERROR: "red", WARNING: "yellow", HINT: "blue"}


def report(found: Sequence[Flaw], width: int, *, changes: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the findings as lines for a terminal of that width; 0: for a pipe, one line each. changes: stand first."""
    for change in filter(None, changes):
        yield from ([(line, "")] for line in [*change.splitlines(), ""])
    for i, finding in enumerate(found):
        if width:
            yield from [[("", "")]] if i else []
            yield from _block(finding, width)
        else:
            start = f"{finding.position}: {finding.severity}[{finding.rule.id}]"
            what = ": ".join(filter(None, (finding.rule.what, finding.named)))
            yield [(f"{start} {what}; fix: {finding.fix}", "")]


def _block(finding: Flaw, width: int) -> Iterator[Line]:
    colour = COLOURS[finding.severity]
    yield [(f"{finding.position}: ", "bold"), (f"{finding.severity}[{finding.rule.id}]", colour, finding.rule.page)]
    yield from ([(line, "")] for line in wrapped(finding.sentence, width, "  ", "  "))
    number = str(finding.position.line)
    gutter = " " * len(number)
    line, start, marked = _window(finding, max(width - len(number) - 5, 20))
    yield [(f"  {number} | ", "dim"), (line, "")]
    yield [(f"  {gutter} | ", "dim"), (" " * start + "^" * marked, colour)]
    indent = " " * len("  fix: ")
    first, *rest = wrapped(finding.fix, width, indent, indent)
    yield [("  fix: ", colour), (first.lstrip(), "")]
    yield from ([(line, "")] for line in rest)


def _window(finding: Flaw, width: int) -> tuple[str, int, int]:
    line = finding.line.expandtabs(1)
    indent = len(line) - len(line.lstrip())
    start = finding.position.column - 1
    cut = indent if start - indent + min(finding.width, 20) <= width else start - width // 3
    shown = line[cut:] if cut == indent else f"...{line[cut + 3 :]}"
    if len(shown) > width:
        shown = f"{shown[: width - 3]}..."
    return shown, start - cut, max(min(finding.width, len(shown) - (start - cut)), 1)


def summary(found: Sequence[Flaw], files: int, everything: bool) -> str:
    """Return how many of each severity there are, and what can be done about them. files: that were judged."""
    if not files:
        return "no file was judged"
    count = Counter(finding.severity for finding in found)
    shown = [f"{count[level]} {level}{'s' if count[level] > 1 else ''}" for level in LEVELS[:2] if count[level]]
    where = f"{files} file{'s' if files > 1 else ''}"
    text = f"{' and '.join(shown)} in {where}" if shown else f"no problems found in {where}"
    if count[HINT]:
        hints = f"{count[HINT]} hint{'s' if count[HINT] > 1 else ''}"
        text += f", {hints}" if everything else f" ({hints}: --all)"
    safe = sum(bool(finding.edits) for finding in found)
    text += f"; --fix mends {safe}" if safe else ""
    return text


def difference(name: str, old: str, new: str) -> str:
    """Return what --fix changes in a script as a unified diff; empty if that is nothing."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"{name} (now)", f"{name} (mended)", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

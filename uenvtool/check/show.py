"""The problems as text for a terminal, a pipe, or a diff."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

from uenvtool.check.problems import Problem
from uenvtool.core.result import Line
from uenvtool.core.words import wrapped
from uenvtool.knowledge.rule import ERROR, HINT, LEVELS, WARNING

COLOURS = {ERROR: "red", WARNING: "yellow", HINT: "blue"}


def report(problems: Sequence[Problem], width: int, *, changes: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the problems as lines for a terminal, after the diffs in `changes`.

    width: the columns of the terminal; 0 for a pipe, with one line per problem.
    """
    for change in filter(None, changes):
        yield from ([(line, "")] for line in [*change.splitlines(), ""])
    for i, problem in enumerate(problems):
        if width:
            yield from [[("", "")]] if i else []
            yield from _block(problem, width)
        else:
            start = f"{problem.position}: {problem.severity}[{problem.rule.id}]"
            what = ": ".join(filter(None, (problem.rule.what, problem.named)))
            yield [(f"{start} {what}; fix: {problem.fix}", "")]


def _block(problem: Problem, width: int) -> Iterator[Line]:
    colour = COLOURS[problem.severity]
    yield [(f"{problem.position}: ", "bold"), (f"{problem.severity}[{problem.rule.id}]", colour, problem.rule.page)]
    yield from ([(line, "")] for line in wrapped(problem.sentence, width, "  ", "  "))
    number = str(problem.position.line)
    gutter = " " * len(number)
    line, start, marked = _window(problem, max(width - len(number) - 5, 20))
    yield [(f"  {number} | ", "dim"), (line, "")]
    yield [(f"  {gutter} | ", "dim"), (" " * start + "^" * marked, colour)]
    indent = " " * len("  fix: ")
    first, *rest = wrapped(problem.fix, width, indent, indent)
    yield [("  fix: ", colour), (first.lstrip(), "")]
    yield from ([(line, "")] for line in rest)


def _window(problem: Problem, width: int) -> tuple[str, int, int]:
    line = problem.line.expandtabs(1)
    indent = len(line) - len(line.lstrip())
    start = problem.position.column - 1
    cut = indent if start - indent + min(problem.width, 20) <= width else start - width // 3
    shown = line[cut:] if cut == indent else f"...{line[cut + 3 :]}"
    if len(shown) > width:
        shown = f"{shown[: width - 3]}..."
    return shown, start - cut, max(min(problem.width, len(shown) - (start - cut)), 1)


def summary(problems: Sequence[Problem], files: int, everything: bool) -> str:
    """Return the number of problems of each severity, and the options that print or fix more of them.

    files: the number of files that were checked.
    everything: whether hints are printed.
    """
    if not files:
        return "no file was checked"
    count = Counter(problem.severity for problem in problems)
    shown = [f"{count[level]} {level}{'s' if count[level] > 1 else ''}" for level in LEVELS[:2] if count[level]]
    where = f"{files} file{'s' if files > 1 else ''}"
    text = f"{' and '.join(shown)} in {where}" if shown else f"no problems found in {where}"
    if count[HINT]:
        hints = f"{count[HINT]} hint{'s' if count[HINT] > 1 else ''}"
        text += f", {hints}" if everything else f"; --all also prints {hints}"
    fixable = sum(bool(problem.edits) for problem in problems)
    text += f"; --fix fixes {fixable}" if fixable else ""
    return text


def difference(name: str, old: str, new: str) -> str:
    """Return the changes of --fix as a unified diff, or an empty string if nothing changes."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"{name} (now)", f"{name} (fixed)", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

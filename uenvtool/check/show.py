"""Renders the problems for a terminal or a pipe, and the fixes as a diff."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence

from uenvtool.check.problems import Problem
from uenvtool.core import quoting
from uenvtool.core.result import Line
from uenvtool.core.words import counted, wrapped
from uenvtool.knowledge.rule import ERROR, HINT, LEVELS, WARNING

COLOURS = {ERROR: "red", WARNING: "yellow", HINT: "blue"}
CONCISE, GITHUB = "concise", "github"
"""The values of --format. The default is several lines per problem on a terminal, and CONCISE in a pipe."""
MOST_NAMES = 5
"""With this many rules or more, the command that explains them does not contain their names."""
_ANNOTATIONS = {ERROR: "error", WARNING: "warning", HINT: "notice"}


def report(
    problems: Sequence[Problem], width: int, *, changes: Sequence[str] = (), form: str | None = None
) -> Iterator[Line]:
    """Yield the diffs in `changes`, and then the problems.

    width: the columns of the terminal, or 0 for a pipe. form: CONCISE, GITHUB, or None for the default.
    """
    for change in filter(None, changes):
        yield from ([(line, "")] for line in [*change.splitlines(), ""])
    for i, problem in enumerate(problems):
        if form == GITHUB:
            yield [(_annotation(problem), "")]
        elif form == CONCISE or not width:
            yield [(f"{problem.position}: {problem.severity}[{problem.rule.id}] {_line(problem)}", "")]
        else:
            yield from [[("", "")]] if i else []
            yield from _block(problem, width)


def _line(problem: Problem) -> str:
    what = ": ".join(filter(None, (problem.rule.what, problem.named)))
    return f"{what}; fix: {problem.fix}"


def _annotation(problem: Problem) -> str:
    """Return the workflow command that shows a problem in the changed files of a pull request."""
    place, last = problem.position, problem.position.column + problem.width
    columns = f"line={place.line},col={place.column},endColumn={last}"
    named = f"file={quoting.github(place.file)},{columns},title={problem.rule.id}"
    message = f"{_line(problem)} ({problem.rule.page or explained_by([problem])})"
    return f"::{_ANNOTATIONS[problem.severity]} {named}::{quoting.github(message, is_message=True)}"


def explained_by(problems: Sequence[Problem]) -> str:
    """Return the command that prints the reasons and sources of problems."""
    names = dict.fromkeys(problem.rule.id for problem in problems)
    return f"uenvtool explain {' '.join(names) if len(names) < MOST_NAMES else 'RULE ...'}"


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

    files: the number of checked files.
    everything: whether the report contains hints.
    """
    if not files:
        return "no file was checked"
    count = Counter(problem.severity for problem in problems)
    worst = " and ".join(counted(count[level], level) for level in LEVELS[:2] if count[level])
    text = f"{worst or 'no problems found'} in {counted(files, 'file')}"
    if count[HINT]:
        text += f"{',' if everything else '; --all also prints'} {counted(count[HINT], HINT)}"
    fixable = sum(bool(problem.edits) for problem in problems)
    return f"{text}; --fix fixes {fixable}" if fixable else text


def difference(name: str, old: str, new: str) -> str:
    """Return the changes of --fix as a unified diff, or an empty string without changes."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"{name} (now)", f"{name} (fixed)", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

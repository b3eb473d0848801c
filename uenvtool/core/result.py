"""What a use case gives back: one value, which `console.show` prints as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from uenvtool.core.errors import ExitCode, Problem

Step = Callable[[str], None]
"""Takes what is being done now."""
Progress = Callable[[str], AbstractContextManager[Step]]
"""How a long piece of work is shown: takes its title and yields a Step."""

Line = Sequence[tuple[str, str] | tuple[str, str, str]]
"""A line of an answer: texts, each with its style: `bold`, `dim`, a colour, or an empty one; and where it leads to."""


@contextmanager
def silent(_title: str) -> Iterator[Step]:
    """Yield a Step that shows nothing."""
    yield lambda _step: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows under headings, each cell a text.

    colours: the colour of a first cell by its text, such as `red`. links: where a cell leads to, by its text. cut: on a
    terminal a row takes one line.
    """

    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    colours: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a command answers.

    data: the whole answer for --json. file: the exact text of a script or file, for a pipe or `>`.
    text: the answer to read; tables follow it, and then a report: a function that gives its lines and tables for a
    terminal of so many columns, 0 for a pipe. problems: what is wrong in the user's files, shown as errors are.
    warnings: what the user should act on. notes: remarks, and what was written.
    next: the commands to go on with. exit_code: NO if the answer is no.
    """

    data: Any = None
    file: str = ""
    text: str = ""
    tables: tuple[Table, ...] = ()
    report: Callable[[int], Iterable[Line | Table]] | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.DONE

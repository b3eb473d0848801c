"""The result of a command, which `console.show` prints as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from uenvtool.core.errors import ExitCode, Problem

Step = Callable[[str], None]
"""A function that shows the current step of long work."""
Progress = Callable[[str], AbstractContextManager[Step]]
"""A context manager that takes the title of long work and yields a Step."""

Line = Sequence[tuple[str, str] | tuple[str, str, str]]
"""A line of output: pairs of text and style, or triples of text, style and link. A style is `bold`, `dim`, a colour
or empty."""


@contextmanager
def silent(_title: str) -> Iterator[Step]:
    """Yield a Step that prints nothing."""
    yield lambda _step: None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table of text with headings.

    colours: the colour for each text in the first column, such as `red`. links: the link for each cell text. cut:
    whether a terminal shows only one line per row.
    """

    headings: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    colours: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The result of a command.

    data: the whole answer for --json. file: the exact text of a script or file, for a pipe or `>`. text: the answer for
    people; the tables and then the report follow it. report: a function that returns lines and tables for a terminal
    width in columns (0 for a pipe). problems: problems in the user's files, printed like errors. warnings: messages
    that the user should act on. notes: remarks, and the names of written files. next: the commands to run next.
    exit_code: NO if the answer is no.
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

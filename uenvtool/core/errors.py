"""Errors as values: a message, its position in a file, a hint and the exit code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

_LONG = re.compile(r"[^\s/]{500,}")
"""A word that is not a path and is too long to read."""


class ExitCode(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    NO = 1  # the answer is no: a check found problems, outdated files or a conflict
    USAGE = 2  # bad input or usage
    MISSING = 3  # an external program is missing
    FAILED = 4  # an external program or the machine (disk, permissions) failed


class Position(NamedTuple):
    """A position in a file that a person edits; lines and columns start at 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: the message, its position if it is in a file, and a hint that solves it."""

    message: str
    position: Position | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.position}: " if self.position else "error: "
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return _LONG.sub(lambda word: f"{word[0][:60]}... ({len(word[0])} characters)", f"{place}{self.message}{hint}")


class UenvtoolError(Exception):
    """The base class of all errors that a user sees; it contains one or more problems."""

    problems: tuple[Problem, ...]
    exit_code = ExitCode.FAILED

    def __init__(
        self, message: str | Iterable[Problem], position: Position | None = None, hint: str | None = None
    ) -> None:
        if isinstance(message, str):
            self.problems = (Problem(message, position, hint),)
        else:
            self.problems = tuple(message)
        super().__init__(str(self))

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)

    @classmethod
    def raise_any(cls, problems: Iterable[Problem]) -> None:
        """Raise the error with all of these problems, if there are any."""
        all_problems = tuple(problems)
        if all_problems:
            raise cls(all_problems)


class AnswerIsNo(UenvtoolError):
    """A check ran and found problems."""

    exit_code = ExitCode.NO


class BadInput(UenvtoolError):
    """A file or an argument from the user is wrong."""

    exit_code = ExitCode.USAGE


class ToolMissing(UenvtoolError):
    """An external program that the command needs is not installed."""

    exit_code = ExitCode.MISSING

    @classmethod
    def not_on_path(cls, program: str, hint: str) -> ToolMissing:
        """Return the error for a program that is not on PATH. hint: the way to install it."""
        return cls(f"the program {program} is not on PATH", hint=hint)


class ToolFailed(UenvtoolError):
    """An external program or the machine failed."""


class NoAnswer(ToolFailed):
    """A program did not answer a query in time. program: its name."""

    def __init__(self, program: str, command: str) -> None:
        super().__init__(f"{program} does not answer", hint=f"find the cause, then run the same again: `{command}`")
        self.program = program


MAX_LISTED = 12
"""The largest number of names that a hint lists."""


def did_you_mean(name: str, known: Iterable[str], count: int = 1) -> str:
    """Return a question with up to `count` similar names, best first, ignoring case, or "" if none is similar."""
    import difflib

    folded: dict[str, str] = {}
    for candidate in known:
        if candidate != name:
            folded.setdefault(candidate.casefold(), candidate)
    matches = difflib.get_close_matches(name.casefold(), folded, n=count, cutoff=0.6)
    names = [repr(folded[match]) for match in matches]
    return f"did you mean {' or '.join(filter(None, (', '.join(names[:-1]), names[-1])))}?" if names else ""


def unknown(
    what: str, name: str, known: Iterable[str], position: Position | None = None, *, listed_by: str = ""
) -> Problem:
    """Return the problem for an unknown name, with a hint that shows the most similar name and all known names.

    If there are more than MAX_LISTED known names, the hint shows at most three similar names and `listed_by`, the
    command that lists all names. Without `listed_by`, the hint lists all names if none is similar.
    """
    names = sorted(known)
    is_many = len(names) > MAX_LISTED
    question = did_you_mean(name, names, count=3 if is_many else 1)
    if is_many and (listed_by or question):
        rest = f"there are {len(names)}" + (f": `{listed_by}` lists them" if listed_by else "")
    else:
        rest = f"known: {', '.join(names) or 'none'}"
    return Problem(f"unknown {what} {name!r}", position, f"{question} {rest}".strip())


def require_known(
    what: str, names: Iterable[str], known: Collection[str], position: Position | None = None, *, listed_by: str = ""
) -> None:
    """Raise BadInput with a problem (see `unknown`) for each unknown name."""
    BadInput.raise_any(unknown(what, name, known, position, listed_by=listed_by) for name in names if name not in known)

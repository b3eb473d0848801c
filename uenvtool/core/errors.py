"""What can go wrong, as values: a message, its place, what to do about it, and the exit code."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

_LONG = re.compile(r"[^\s/]{500,}")
"""A word that is no path, and that nobody reads to its end."""


class ExitCode(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    NO = 1  # the answer is no: a check found problems, a drift, a conflict
    USAGE = 2  # bad input or usage
    MISSING = 3  # an external program is missing
    FAILED = 4  # an external program failed, or the machine did (disk, permission)


class Position(NamedTuple):
    """A place in a file that a person edits; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: what it is, its place in a file if it has one, and what to do about it."""

    message: str
    position: Position | None = None
    hint: str | None = None

    def __str__(self) -> str:
        place = f"{self.position}: " if self.position else "error: "
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return _LONG.sub(lambda word: f"{word[0][:60]}... ({len(word[0])} characters)", f"{place}{self.message}{hint}")


class UenvtoolError(Exception):
    """The base of every error that a user sees; it carries one problem or several."""

    problems: tuple[Problem, ...]
    exit_code = ExitCode.FAILED

    def __init__(
        self,
        message: str | Iterable[Problem],
        position: Position | None = None,
        hint: str | None = None,
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
        found = tuple(problems)
        if found:
            raise cls(found)


class AnswerIsNo(UenvtoolError):
    """A check ran and found problems."""

    exit_code = ExitCode.NO


class BadInput(UenvtoolError):
    """A file or an argument of the user's is wrong."""

    exit_code = ExitCode.USAGE


class ToolMissing(UenvtoolError):
    """An external program that the command needs is not installed here."""

    exit_code = ExitCode.MISSING

    @classmethod
    def not_on_path(cls, program: str, hint: str) -> ToolMissing:
        """Return the error for a program that PATH does not have; the hint says how to get it."""
        return cls(f"the program {program} is not on PATH", hint=hint)


class ToolFailed(UenvtoolError):
    """An external program or the machine failed."""


MAX_LISTED = 12
"""More names than these are not listed in a hint: nobody reads them."""


def did_you_mean(name: str, known: Iterable[str], count: int = 1) -> str:
    """Return the question that names the known names most like `name`, whatever their case, the most similar first.

    count: at most so many of them. An empty text if none is near.
    """
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
    """Return the problem of a name that nobody knows: the nearest name and all of them, or three if there are many.

    listed_by: the command that lists them if there are many; without one they are all told where none is near.
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
    """Raise BadInput, with the problem of `unknown`, for each of the names that is none of those known."""
    BadInput.raise_any(unknown(what, name, known, position, listed_by=listed_by) for name in names if name not in known)

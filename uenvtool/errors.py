"""What can go wrong, as values: a message, where it stands, what to do, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    NO = 1  # the answer is no: a check found problems, a drift, a conflict
    USAGE = 2  # bad input or usage
    MISSING = 3  # an external program is missing
    FAILED = 4  # an external program, or the machine (disk, permission), failed


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file that a person edits; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: what, where if anywhere, and what the reader can do about it."""

    message: str
    position: Position | None = None
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else "error: "
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


@dataclass
class UenvtoolError(Exception):
    """The base of every error that a user sees; it carries one problem or several."""

    problems: tuple[Problem, ...] = field(default_factory=tuple)
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


class AnswerIsNo(UenvtoolError):
    """A check ran and found problems."""

    exit_code = ExitCode.NO


class BadInput(UenvtoolError):
    """A file or an argument of the user's is wrong."""

    exit_code = ExitCode.USAGE


class ToolMissing(UenvtoolError):
    """An external program that the command needs is not there."""

    exit_code = ExitCode.MISSING


class ToolFailed(UenvtoolError):
    """An external program or the machine failed."""

    exit_code = ExitCode.FAILED


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, or None where none is near."""
    import difflib

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def unknown(what: str, name: str, known: Iterable[str], position: Position | None = None) -> Problem:
    """The problem of a name that nobody knows, with the nearest one and all that exist."""
    names = sorted(known)
    near = nearest(name, names)
    listed = ", ".join(names) if names else "none"
    hint = f"did you mean {near!r}? " if near else ""
    return Problem(f"unknown {what} {name!r}", position, f"{hint}known: {listed}")

"""The parts of a batch script or EDF that rules match, each with its offsets in the file."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

BATCH: Final = "batch"
STEP: Final = "step"
"""The scopes of a command: the batch script itself, or a step that srun or a container runs."""
_NAMED = re.compile(
    r"^[^#\n]*(?:(?:--uenv[= ]|\buenv image inspect [^\n]*?)[\"']?([\w-]+/v?\d[\w.:%@-]*)"
    r"|\bsbcast --force ([^\s\"$]+))",
    re.MULTILINE,
)
MADE_FOR: Final = "# uenvtool: recipe={} uenv={}"
"""The comment in which `uenvtool job` records the recipe of a uenv if nothing else in the script shows it."""
_MADE_FOR = re.compile("^" + MADE_FOR.format(r"(?P<recipe>.+)", r"(?P<uenv>\S+)"), re.MULTILINE)
OUTER: Final = "\ue000"
"""A private-use Unicode character that replaces a `$` which the batch script expands before a step starts."""

Path = tuple[tuple[str, int, int], ...]
"""The blocks around a command, outermost first, each with its kind, start offset and branch number."""


class Piece(NamedTuple):
    """A piece of a shell word with its offsets in the text. It is a tuple, because a long script has many pieces.

    kind: plain, single or double (quoted), escape, or open (a substitution).
    """

    kind: str
    start: int
    end: int


@dataclass(slots=True, eq=False, repr=False)
class ShellCommand:
    """A simple command of a shell script.

    words: the pieces of each word.
    spellings: each word as the command receives it, with quotes removed.
    pipe, piped: whether the command reads from a pipe, and whether it writes to a pipe.
    background: whether the command, or a pipe or block that contains it, ends with `&`.
    body: the command's heredoc, of kind `quoted` if the shell does not expand it.
    breaks: the places where a line was meant to continue but ends the command, each with its range and the reason.
        The command contains the words of the next line.
    """

    words: list[list[Piece]] = field(default_factory=list)
    spellings: list[str] = field(default_factory=list)
    pipe: bool = False
    piped: bool = False
    background: bool = False
    path: Path = ()
    body: Piece | None = None
    breaks: list[tuple[int, int, str]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of a file.

    kind: one of KINDS in knowledge/rule.py, or `ignored` for a comment that was meant as an #SBATCH line.
    name: the name of the option, variable, command or key.
    text: the value, or the text of the whole command.
    offset, end: the range in the file's text.
    argv: the program and arguments of a command.
    step: the offset of the command that starts the enclosing step, or -1 outside a step.
    exported, appends: whether programs see the variable, and whether `+=` adds the text to its value.
    literal: whether the part is in single quotes, or in a heredoc that the shell does not expand.
    background, piped: as in ShellCommand.
    """

    kind: str
    name: str
    text: str
    offset: int
    end: int
    scope: str = BATCH
    argv: tuple[str, ...] = ()
    step: int = -1
    path: Path = ()
    exported: bool = False
    appends: bool = False
    literal: bool = False
    background: bool = False
    piped: bool = False

    @property
    def around(self) -> frozenset[str]:
        return frozenset(kind for kind, _, _ in self.path)

    def as_kind(self, kind: str, name: str, text: str) -> Part:
        """Return a part of another kind at the same place."""
        return Part(
            kind=kind, name=name, text=text, offset=self.offset, end=self.end, scope=self.scope, argv=self.argv,
            step=self.step, path=self.path, literal=self.literal, background=self.background, piped=self.piped,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A match of a rule in a file.

    detail: an explanation, if the matched text is not enough.
    fix: a fix to show instead of the rule's own.
    edits: the changes that --fix makes, as offset, end and new text.
    is_certain: False if the problem is only a hint, whatever the rule's severity.
    """

    offset: int
    end: int
    detail: str = ""
    fix: str = ""
    edits: tuple[tuple[int, int, str], ...] = ()
    is_certain: bool = True


def at(part: Part, detail: str = "", fix: str = "") -> Hit:
    """Return a hit that covers a part."""
    return Hit(offset=part.offset, end=part.end, detail=detail, fix=fix)


def fork(part: Part, other: Part) -> int:
    """Return the nesting depth of the block that has the two parts in different branches, or 0 without such a block."""
    for depth, (block, its_block) in enumerate(zip(part.path, other.path, strict=False), 1):
        if block != its_block:
            return depth if block[:2] == its_block[:2] else 0
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedFile:
    """A parsed batch script or EDF.

    shown: the file name for messages.
    parts: the parts in file order.
    kinds: `script` or `edf`, `slurm`, and the runtimes that the file uses.
    given: the known environment variables of the shell that starts the script.
    inner: the batch scripts that the script writes in order to submit them.
    foreign: the scheduler of directives that are not checked, such as PBS.
    template: the first placeholder that another program fills in.
    carriage_returns: the offsets of the CRLF line endings of a script.
    has_shebang: whether the file begins with `#!`; True for a script that another script writes.
    """

    shown: str
    text: str
    parts: tuple[Part, ...]
    kinds: frozenset[str]
    given: Mapping[str, str] = field(default_factory=dict)
    inner: tuple[CheckedFile, ...] = ()
    foreign: str = ""
    template: str = ""
    carriage_returns: tuple[int, ...] = ()
    has_shebang: bool = True

    def of(self, kind: str, *names: str) -> Iterator[Part]:
        """Yield the parts of a kind, or only the parts with one of the given names."""
        return (part for part in self.parts if part.kind == kind and (not names or part.name in names))

    @property
    def uenv(self) -> str:
        """Return the uenv that the script names in an option or copies, as image name and tag or as a file, or ""."""
        named = (part.text.partition(",")[0] for part in self.of("directive", "uenv"))
        match = _NAMED.search(self.text)
        return next(named, match[1] or match[2] if match else "")

    @property
    def recipe(self) -> str:
        """Return the recipe that `uenvtool job` recorded, or an empty string if the script now loads another uenv."""
        match = _MADE_FOR.search(self.text)
        return match["recipe"] if match and match["uenv"] == self.uenv else ""


class Lines:
    """The lines of a text, each with its start offset."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def __call__(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset, both counted from 1."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line(self, number: int) -> str:
        return self._lines[number - 1].removesuffix("\r")


lines_of = functools.lru_cache(maxsize=4)(Lines)
"""Return the Lines of a text. The cache serves the scripts that one text contains."""

"""The parts of a batch script or EDF that rules look at, each with its place."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

BATCH: Final = "batch"
STEP: Final = "step"
"""Scopes: the batch script itself, and what srun or a container runs."""
_NAMED = re.compile(
    r"^[^#\n]*(?:(?:--uenv[= ]|\buenv image inspect [^\n]*?)[\"']?([\w-]+/v?\d[\w.:%@-]*)"
    r"|\bsbcast --force ([^\s\"$]+))",
    re.MULTILINE,
)
MADE_FOR: Final = "# uenvtool: recipe={} uenv={}"
"""What `uenvtool job` writes down where nothing else in the script tells the recipe of its uenv."""
_MADE_FOR = re.compile("^" + MADE_FOR.format(r"(?P<recipe>.+)", r"(?P<uenv>\S+)"), re.MULTILINE)
OUTER: Final = "\ue000"
"""Stands for a `$` that the batch script expands before a step starts. The character is of a private area."""

Path = tuple[tuple[str, int, int], ...]
"""What a command stands in, from the outside in: the kind of block, the offset where it starts, and its arm."""


class Piece(NamedTuple):
    """A part of a word: plain, single, double, escape or open (a substitution). start, end: offsets in the text.

    A tuple, since a long script has many.
    """

    kind: str
    start: int
    end: int


@dataclass(slots=True, eq=False, repr=False)
class ShellCommand:
    """Words between two ends.

    words: the pieces of each word. spellings: each word as its command gets it. pipe: it reads from a pipe.
    piped: it writes to one. background: `&` follows. path: the branches, loops and subshells that it stands in.
    body: the heredoc, a piece of the kind `quoted` if it is taken as it stands.
    """

    words: list[list[Piece]] = field(default_factory=list)
    spellings: list[str] = field(default_factory=list)
    pipe: bool = False
    piped: bool = False
    background: bool = False
    path: Path = ()
    body: Piece | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part of a file.

    kind: of KINDS in knowledge/rule.py, or `ignored`: a comment that was meant as an #SBATCH line. name: of the option,
    variable, command or key. text: its value, or the whole command. offset, end: where it stands in the file's text.
    words: of a command. step: the offset of the command that starts the step it runs in, -1 outside. path: the branches
    and loops around it. exported: what a variable's programs see. literal: it stands in single quotes.
    """

    kind: str
    name: str
    text: str
    offset: int
    end: int
    scope: str = BATCH
    words: tuple[str, ...] = ()
    step: int = -1
    path: Path = ()
    exported: bool = False
    literal: bool = False
    background: bool = False
    piped: bool = False

    @property
    def around(self) -> frozenset[str]:
        """Return the kinds of the blocks that it stands in."""
        return frozenset(kind for kind, _, _ in self.path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """What a search found: where it stands, and what is to be said of it.

    detail: what was found, if its text alone does not say it. fix: in place of the rule's. edits: offset, end and
    new text of what --fix changes. is_certain: False for a hint, whatever the rule's severity.
    """

    offset: int
    end: int
    detail: str = ""
    fix: str = ""
    edits: tuple[tuple[int, int, str], ...] = ()
    is_certain: bool = True


def at(part: Part, detail: str = "", fix: str = "") -> Hit:
    """Return a part as what was found."""
    return Hit(offset=part.offset, end=part.end, detail=detail, fix=fix)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedFile:
    """A file as it was read: its parts in order, and what is known of it.

    shown: how messages name the file. kinds: script or edf, slurm, and the runtimes that it uses. given: the
    variables that it is started with, as far as they are known. inner: scripts that it writes to submit them.
    foreign: the scheduler of directives that are not looked at. template: what another program fills in.
    carriage_returns: where a line of a script ends as on Windows. has_shebang: what runs the script stands at the
    very start of the file; not looked at in a script that another one writes.
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
        """Yield the parts of a kind; with names, those that have one of them."""
        return (part for part in self.parts if part.kind == kind and (not names or part.name in names))

    @property
    def uenv(self) -> str:
        """Return the label or file of the uenv that its options name, or that it copies; empty if it names none."""
        named = (part.text.partition(",")[0] for part in self.of("directive", "uenv"))
        found = _NAMED.search(self.text)
        return next(named, found[1] or found[2] if found else "")

    @property
    def recipe(self) -> str:
        """Return the recipe that `uenvtool job` wrote down; empty where the script now loads another uenv."""
        found = _MADE_FOR.search(self.text)
        return found["recipe"] if found and found["uenv"] == self.uenv else ""


class Lines:
    """Line and column of an offset in a text, both from 1, and the text of a line. starts: the offsets of lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def __call__(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of a line, without its end."""
        start = self.starts[number - 1]
        end = self._text.find("\n", start)
        return self._text[start : end if end >= 0 else len(self._text)].removesuffix("\r")


lines_of = functools.lru_cache(maxsize=4)(Lines)
"""The lines of a text, once for the scripts that it holds."""

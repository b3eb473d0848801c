"""The parts of a batch script or EDF that rules look at, each with its place."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

BATCH: Final = "batch"
STEP: Final = "step"
"""Scopes: the batch script itself, and what srun or a container runs."""
_NAMED = re.compile(r"^[^#\n]*(?:--uenv[= ]|\buenv image inspect [^\n]*?)[\"']?([\w-]+/v?\d[\w.:%@-]*)", re.MULTILINE)
OUTER: Final = "\ue000"
"""Stands for a `$` that the batch script expands before a step starts. The character is of a private area."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a file.

    kind: directive, late, variable, command, last, entry or line, see model/rule.py. name: of the option, variable,
    command or key. text: its value, or the whole command. offset: where it starts in the file's text.
    """

    kind: str
    name: str
    text: str
    offset: int
    scope: str = BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file as it was read: its parts in order, and what is known of it.

    shown: how messages name the file. kinds: script or edf, slurm, and the runtimes that it uses.
    syntax: an error of the file's own language, as offset and message. given: the variables that it is started with,
    as far as they are known.
    """

    shown: str
    text: str
    parts: tuple[Part, ...]
    kinds: frozenset[str]
    syntax: tuple[int, str] | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def uenv(self) -> str:
        """The label of the uenv that its options name, or that it copies to the nodes; empty if it names none."""
        named = (part.text for part in self.parts if part.kind == "directive" and part.name == "uenv")
        found = _NAMED.search(self.text)
        return next(named, found[1] if found else "")


class Lines:
    """Line and column of an offset in a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def __call__(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

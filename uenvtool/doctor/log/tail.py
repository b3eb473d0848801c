"""Looks at the end of a log: for a line that speaks of a failure, since silence is no good news, and for progress."""

from __future__ import annotations

import re
from collections.abc import Iterable

from uenvtool.core.value import value_class
from uenvtool.doctor.log.blocks import Block
from uenvtool.doctor.secrets import without_secrets

IGNORED = "Exception ignored in"
"""How Python begins what it says of a failure that it passes over, as in a destructor."""
TAIL_BYTES = 1 << 16
ENOUGH = 5
"""So many lines of progress say that a run went on."""
SHOWN = 200
_SPEAKS = re.compile(
    r"\b(?:(?i:error|failed|failure|fatal|abort(?:ed|ing)?|unable to|could not|cannot|denied|refused|not enough|"
    r"timed out|crashed|core dumped|is dead|killed|terminated (?:by|with|abnormally|unexpectedly))|"
    r"\w*E(?:rror|RROR))\b(?!_)"
)
_HARMLESS = re.compile(
    r"(?i)\b(?:no|0|without|zero|any|if|when|on) (?:\w+ )?(?:error|failure|failed)|error\w*['\"]?\s*[=:]\s*[\d.]|"
    r"warn|info|debug|ignor|retry|deprecat|error_file|fail\w*[\w ]{0,40}: *(?:0\b|none|<)"
)
_PROGRESS = re.compile(
    r"(?i)(?:epoch|(?<!\*\*\* )step|iter(?:ation)?|loss|samples|tokens)(?:_num|_count)?['\"]?[ \t:=|]{1,4}[\[({]?\d|"
    r"\d ?(?:it|s|samples|tokens|imgs?|images)/(?:s|it|sec)\b"
)
"""What trainings print at each step, by their own counters: of Lightning, transformers, Megatron, MLPerf, tqdm."""


@value_class
class Tail:
    """The end of a log. log: its name. offset: the number of its first byte."""

    log: str
    offset: int
    data: bytes

    @classmethod
    def of(cls, log: str, last: Block) -> Tail:
        """Return what is kept of the last block of a log, from the start of a line on."""
        start = max(len(last.data) - TAIL_BYTES, 0)
        start = last.data.find(b"\n", start) + 1 if start else 0
        return cls(log=log, offset=last.offset + start, data=last.data[start:])

    def went_on_after(self, offset: int) -> bool:
        """Tell if a training goes on behind the line of a place."""
        return sum(map(_is_progress, self._lines_after(offset))) >= ENOUGH

    def last_words(self, offset: int = -1) -> str:
        """Return the first line that speaks of a failure, if a training does not go on behind it; else nothing.

        offset: of a place, behind whose line it stands; by default it may be any line.
        """
        is_ignored, found, steps = False, "", 0
        for line in self._lines_after(offset):
            is_ignored = is_ignored or IGNORED in line
            if not _speaks(line):
                steps += _is_progress(line)
            elif is_ignored:
                is_ignored = False
            else:
                found, steps = found if found and steps < ENOUGH else line, 0
        return without_secrets(" ".join(found.split()))[:SHOWN] if steps < ENOUGH else ""

    def _lines_after(self, offset: int) -> list[str]:
        start = self.data.find(b"\n", offset - self.offset) + 1 or len(self.data) if offset >= self.offset else 0
        return self.data[start:].decode("utf-8", "replace").splitlines()


def _is_progress(line: str) -> bool:
    return bool(_PROGRESS.search(line) and not _speaks(line))


def _speaks(line: str) -> bool:
    return bool(_SPEAKS.search(line) and not _HARMLESS.search(line))


def last_words(tails: Iterable[Tail]) -> tuple[str, str] | None:
    """Return the first line at the end of a log that speaks of a failure, and its log; None where there is none."""
    return next(((tail.log, line) for tail in tails if (line := tail.last_words())), None)

"""Looks at the end of a log: for a line that speaks of a failure, since silence is no good news, and for progress."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from uenvtool.doctor.log.blocks import Block
from uenvtool.doctor.log.words import IGNORED, MANY, PLAIN, Words
from uenvtool.knowledge.secrets import without_secrets

TAIL_BYTES, NEAR_BYTES = 1 << 16, 1 << 12
ENOUGH = 5
"""So many lines of progress say that a run went on, and that what was known to break it did not."""
LAST_LINES = 4
MOST_QUOTES, MOST_BEFORE = 4, 2
MOST_OF = 0.6
"""A line is quoted where so much of it is."""
SHOWN = 300
_VARIES = re.compile(r"0x[\da-f]+|[\da-f]{8,}|\d+|\[[^\]]*\]|\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """The end of a log, or another part of it.

    log: its name. line, offset: the numbers of its first line and byte. is_cut: it begins within a line.
    """

    log: str
    line: int
    offset: int
    data: bytes
    words: Words
    is_cut: bool = False

    @classmethod
    def of(cls, log: str, last: Block, words: Words) -> Tail:
        """Return what is kept of the last block of a log, from the start of a line on."""
        start = max(len(last.data) - TAIL_BYTES, 0)
        start = last.data.find(b"\n", start) + 1 if start else 0
        line = last.line + last.data.count(b"\n", 0, start)
        is_cut = last.is_cut and not start
        return cls(log=log, line=line, offset=last.offset + start, data=last.data[start:], words=words, is_cut=is_cut)

    @classmethod
    def around(cls, log: str, block: Block, at: int, line: int, words: Words) -> Tail:
        """Return what stands around a place in a block, whose line has this number."""
        start = block.data.rfind(b"\n", 0, max(at - NEAR_BYTES, 0)) + 1
        line -= block.data.count(b"\n", start, at)
        data, is_cut = block.data[start : at + NEAR_BYTES], block.is_cut and not start
        return cls(log=log, line=line, offset=block.offset + start, data=data, words=words, is_cut=is_cut)

    def went_on_after(self, offset: int, steps: int) -> bool:
        """Tell if so many lines of progress, one or more, stand behind the line of a place."""
        counts = itertools.accumulate(map(self.words.steps, self._lines_after(offset)))
        return any(count >= steps for count in counts)

    def goes_on_after(self, offset: int) -> bool:
        """Tell if a log goes on behind the line of a place, as it does where a shell complained."""
        return _goes_on(self._lines_after(offset))

    def last_words(self, offset: int = -1) -> LastWords | None:
        """Return the line that says most of a failure, if a training does not go on behind it; else nothing.

        offset: of a place, behind whose line it stands; by default it may be any line.
        """
        words, is_ignored, steps = self.words, False, 0
        found: list[tuple[int, str]] = []
        lines = self._lines_after(offset)
        for number, line in enumerate(lines):
            is_ignored = is_ignored or IGNORED in line
            if not words.speaks(line):
                steps += words.steps(line)
            elif is_ignored or (words.has(line, "shell") and _goes_on(lines[number + 1 :])):
                is_ignored = False
            else:
                found, steps = [*(found if steps < ENOUGH else []), (number, line)], 0
        if not found or steps >= ENOUGH:
            return None
        number, line = max(found, key=lambda one: words.weight(one[1]))
        behind = lines[number + 1 :]
        is_last = not any(map(str.strip, behind[LAST_LINES - 1 :])) and not any(
            words.has(one, "success") for one in behind
        )
        is_last = is_last and words.has(line, "failure") and not words.has(line, "shell")
        return self._words(number, line, is_last=is_last)

    def telling(self) -> Iterator[LastWords]:
        """Yield the lines that tell something of a failure, each kind once, and where a crash was."""
        seen: set[str] = set()
        lines, words = self._lines_after(-1), self.words
        for number, line in enumerate(lines):
            is_own = words.frame(line)
            is_reason = bool(number and words.has(lines[number - 1], "head") and not words.has(line, "empty"))
            kind = "a frame" if is_own else kind_of(line)
            if kind not in seen and (is_reason or (words.tells(line) if is_own is None else is_own)):
                seen.add(kind)
                yield self._words(number, line, more=PLAIN * (bool(is_own) + is_reason))

    def printed_before(self, line: int) -> list[LastWords]:
        """Return the last lines before the one of a number, whatever they say, without progress and what follows."""
        lines, words = self._lines_after(-1)[: line - self.line], self.words
        told = [
            (number, one)
            for number, one in enumerate(lines)
            if len(one.split()) > 1 and not words.steps(one) and not words.has(one, "empty", "follows", "information")
        ]
        return [self._words(number, one) for number, one in told[-MOST_BEFORE:]]

    def warnings(self) -> Iterator[LastWords]:
        """Yield the lines by which what runs a training warns, each kind once."""
        seen: set[str] = set()
        for number, line in enumerate(self._lines_after(-1)):
            if self.words.has(line, "warns") and not self.words.has(line, "usual") and kind_of(line) not in seen:
                seen.add(kind_of(line))
                yield self._words(number, line)

    def _words(self, number: int, line: str, *, more: int = 0, is_last: bool = False) -> LastWords:
        """Return a line of this number as it is shown. more: weight that it has beyond its words."""
        text, place = shortened(without_secrets(line), SHOWN), f"{self.log}:{self.line + number}"
        return LastWords(text=text, place=place, weight=self.words.weight(line) + more, is_last=is_last)

    def _lines_after(self, offset: int) -> list[str]:
        start = self.data.find(b"\n", offset - self.offset) + 1 or len(self.data) if offset >= self.offset else 0
        lines = self.data[start:].decode("utf-8", "replace").splitlines()
        if self.is_cut and not start:  # what told that it begins with a secret may be cut off
            lines[:1] = [without_secrets(line, SHOWN) for line in lines[:1]]
        return lines


@dataclass(frozen=True, kw_only=True, slots=True)
class LastWords:
    """A line at the end of a log that speaks of a failure, where it stands, and how much it says.

    is_last: it states that the run failed, and nothing of weight stands behind it.
    """

    text: str
    place: str
    weight: int
    is_last: bool = False


def kind_of(line: str) -> str:
    """Return what lines share that say the same for another rank, time or address, also where they were cut."""
    return _VARIES.sub("", line).strip(" :.")


def shortened(text: str, most: int) -> str:
    """Return a text on one line, of at most so many characters, cut behind a word."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 4].rpartition(' ')[0] or text[: most - 4]} ..."


def _goes_on(lines: Sequence[str]) -> bool:
    """Tell if many lines of any kind stand there: a shell goes on by itself behind a command that failed."""
    return len(list(itertools.islice(filter(str.strip, lines), MANY))) == MANY


def quotes(tails: Iterable[Tail], kinds: Sequence[str]) -> tuple[LastWords, ...]:
    """Return the few lines that say most of a failure, in their order; kinds: of the lines that are shown already."""
    lines = [words for tail in tails for words in tail.telling() if not is_told(words.text, kinds)]
    best = sorted(lines, key=lambda words: -words.weight)[:MOST_QUOTES]
    last = next((words for words in reversed(lines) if words.weight > PLAIN), None)
    if last and last not in best:  # what ended the run, where much was said before
        best[-1] = last
    return tuple(words for words in lines if words in best)


def warnings(tails: Iterable[Tail]) -> Iterator[LastWords]:
    """Return the first few lines at the ends of logs that warn, of each log a kind once."""
    return itertools.islice((words for tail in tails for words in tail.warnings()), MOST_QUOTES)


def is_told(line: str, kinds: Sequence[str]) -> bool:
    """Tell if the lines of these kinds have all of a line, or most of it."""
    kind = kind_of(line)
    return any(kind in other or (other in kind and len(other) >= MOST_OF * len(kind)) for other in kinds)


def last_words(tails: Iterable[Tail]) -> LastWords | None:
    """Return the line at the ends of logs that says most of a failure, the first of those; None where there is none."""
    return max(
        filter(None, (tail.last_words() for tail in tails)),
        key=lambda words: (words.is_last, words.weight),
        default=None,
    )

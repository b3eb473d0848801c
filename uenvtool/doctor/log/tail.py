"""Search of the end of a log for progress, and for lines that describe a failure that no finding covers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from uenvtool.doctor.log.blocks import Block
from uenvtool.doctor.log.classifier import IGNORED, LONG, MANY, PLAIN, LineClassifier
from uenvtool.doctor.log.totals import COUNTER, ends_cycle, is_in_next_item, is_total_reached
from uenvtool.knowledge.secrets import without_secrets

TAIL_BYTES, NEAR_BYTES = 1 << 18, 1 << 12
ENOUGH = 5
"""The number of progress lines that show that an earlier problem did not end the run."""
LAST_LINES, MOST_AFTER_END, MOST_BEFORE_END = 4, 20, 3
MOST_BEFORE_END_OF_EPOCH = 0.8
"""The share of a total after which an epoch's end may be the end of the run. Programs count from 0 or skip steps."""
MOST_ADVICE = 240
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z`\[])")
MOST_QUOTES, MOST_BEFORE, MOST_NEAR = 4, 2, 50
MOST_OF = 0.6
"""The share of a line that a shown line must contain for the line to count as already shown."""
SHOWN = 300
_LONG_PATH = re.compile(r"(/\S{12})\S{30,}(/\S{1,60}|\S{40})(?!\S)")
MIN_RESULTS = 2
"""The number of results that a program must print to show that it worked without a module that was not loaded."""
_RESULT = re.compile(r"[\w)\]%]\s*[=:]\s*[-+]?\d+\.\d+(?:e[-+]?\d+)?(?![\d.])")
_NO_RESULT = re.compile(r"(?i)version|elapsed|\btime\b|cuda:|load average")
_WORD = re.compile(r"\w")
_BREAK, _BYTES_BREAK = re.compile(r"\r\n|[\r\n]"), re.compile(rb"\r\n|[\r\n]")
_VARIES = re.compile(r"0x[\da-f]+|[\da-f]{8,}|\d+|\[[^\]]*\]|\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """The end of a log, or the lines around a match.

    line, offset: the line number and byte offset of the data in the log.
    is_cut: whether the data begins inside a line.
    head: the start of a log whose end is the data. Programs print their settings there.
    """

    log: str
    line: int
    offset: int
    data: bytes
    classifier: LineClassifier
    is_cut: bool = False
    head: bytes = b""

    @classmethod
    def until(cls, log: str, block: Block, end: int, line: int, classifier: LineClassifier, most: int) -> Tail:
        """Return at most `most` bytes of a block from the start of a line to an offset with a line number."""
        start = max(end - most, 0)
        start = block.data.find(b"\n", start, end) + 1 if start else 0
        data, is_cut = block.data[start:end], block.is_cut and not start
        line -= data.count(b"\n")
        return cls(log=log, line=line, offset=block.offset + start, data=data, classifier=classifier, is_cut=is_cut)

    @classmethod
    def around(cls, log: str, block: Block, at: int, line: int, classifier: LineClassifier) -> Tail:
        """Return the lines around a position in a block. line: the line number of the position."""
        near = max(at - NEAR_BYTES, 0)
        lowest = max(near - NEAR_BYTES, 0)
        start = max(block.data.rfind(b"\n", lowest, near) + 1, lowest)
        line -= block.data.count(b"\n", start, at)
        is_cut = block.data[start - 1 : start] != b"\n" if start else block.is_cut
        data = block.data[start : at + NEAR_BYTES]
        return cls(log=log, line=line, offset=block.offset + start, data=data, classifier=classifier, is_cut=is_cut)

    def since(self, offset: int) -> Tail:
        """Return the part of the tail after an offset in the log."""
        at = max(offset - self.offset, 0)
        line = self.line + self.data.count(b"\n", 0, at)
        data, head, is_cut = self.data[at:], b"" if offset else self.head, self.is_cut and not at
        return replace(self, line=line, offset=self.offset + at, data=data, is_cut=is_cut, head=head)

    def has_progress_after(self, offset: int, steps: int) -> bool:
        """Return whether at least `steps` progress lines follow the line at an offset."""
        counts = itertools.accumulate(map(self.classifier.steps, self._numbered_lines(offset)[1]))
        return any(count >= steps for count in counts)

    @property
    def shows_run(self) -> bool:
        """Return whether a program printed progress, or that it ended."""
        return any(
            self.classifier.steps(line) or self.classifier.has(line, "closes") for line in self._numbered_lines()[1]
        )

    def has_output_after(self, offset: int) -> bool:
        """Return whether many lines follow the line at an offset, because a shell continues after a failed command."""
        return _before_many_lines(self._numbered_lines(offset)[1]) >= 0

    def has_results_after(self, offset: int) -> bool:
        """Return whether the log ends well and a program printed results after the line at an offset.

        The output of a script, such as a date, the name of the node or "Step 2: train", contains no results.
        """
        lines = self._numbered_lines(offset)[1]
        results = sum(bool(_RESULT.search(line)) and not _NO_RESULT.search(line) for line in lines)
        return self.last_line() is None and (
            results >= MIN_RESULTS or any(self.classifier.has(line, "done") for line in lines)
        )

    @property
    def ends_with_failure(self) -> bool:
        """Return whether the last line describes a failure."""
        printed = [line for line in self._numbered_lines()[1] if line.strip()]
        return bool(printed) and self.classifier.shows_failure(printed[-1])

    def is_caught_each_time(self, line: int, offset: int) -> bool:
        """Return whether a program caught an error several times, such as a sweep over settings, and the log ends well.

        The log has many progress lines between the first and the last error, and a statement after the last one.

        line, offset: the line number of the first error, and the offset of the last one.
        """
        numbers, lines = self._numbered_lines(offset)
        before = zip(*self._numbered_lines(), strict=True)
        if sum(self.classifier.steps(text) for at, text in before if line < at < min(numbers, default=0)) < LONG:
            return False
        last = max((number for number, text in enumerate(lines) if self.classifier.shows_failure(text)), default=-1)
        after = lines[last + 1 :][:MOST_NEAR]
        return any(self.classifier.has(text, "caught") for text in after) and self.last_line() is None

    def decisive_line(self, offset: int = -1) -> QuotedLine | None:
        """Return the line that describes a failure best, or None if training continues after it.

        offset: the offset of the line after which the search begins. Default: all lines are searched.
        """
        classifier, is_ignored, steps = self.classifier, False, 0
        failures: list[tuple[int, str]] = []
        numbers, lines = self._numbered_lines(offset)
        shell_goes_on = _before_many_lines(lines)
        for number, line in enumerate(lines):
            is_ignored = is_ignored or bool(IGNORED.search(line))
            if not classifier.shows_failure(line):
                steps += classifier.steps(line)
                continue
            if is_ignored or (number < shell_goes_on and classifier.has(line, "shell")):
                is_ignored = False
                continue
            if steps >= ENOUGH:
                failures.clear()
            failures.append((number, line))
            steps = 0
        if not failures:
            return self._reason_to_leave(numbers, lines)
        if steps >= ENOUGH:
            return None
        last_number, last = failures[-1]
        number, line = max(failures, key=lambda failure: classifier.weight(failure[1]))
        following = lines[last_number + 1 :]
        is_last = not any(map(str.strip, following[LAST_LINES - 1 :])) and not any(
            classifier.has(later, "success") for later in following
        )
        is_last = is_last and classifier.has(last, "failure") and not classifier.has(last, "shell")
        return self._quoted(numbers[number], line, is_last=is_last)

    def _reason_to_leave(self, numbers: Sequence[int], lines: Sequence[str]) -> QuotedLine | None:
        """Return the line that states a problem, if the last line states that the program ends, such as "Exiting."."""
        printed = [number for number, line in enumerate(lines) if line.strip()][:-3:-1]
        if not printed or not self.classifier.has(lines[printed[0]], "leaves"):
            return None
        number = next((number for number in printed if self.classifier.states_problem(lines[number])), None)
        return None if number is None else self._quoted(numbers[number], lines[number], is_last=True)

    def failure_lines(self) -> Iterator[QuotedLine]:
        """Yield the lines that describe a failure, one per kind, and the first stack frame in the program's code."""
        seen: set[str] = set()
        (numbers, lines), classifier = self._numbered_lines(), self.classifier
        for number, line in enumerate(lines):
            is_program_frame = classifier.frame(line)
            is_reason = bool(number and classifier.has(lines[number - 1], "head") and not classifier.has(line, "empty"))
            kind = "a frame" if is_program_frame else kind_of(line)
            describes = classifier.describes_failure(line[:SHOWN]) if is_program_frame is None else is_program_frame
            if kind not in seen and (is_reason or describes):
                seen.add(kind)
                yield self._quoted(numbers[number], line, more=PLAIN * (bool(is_program_frame) + is_reason))

    def printed_before(self, line: int) -> list[QuotedLine]:
        """Return the last lines before a line number that are not progress, information, or without content."""
        classifier = self.classifier
        candidates = [
            (number, text)
            for number, text in zip(*self._numbered_lines(), strict=True)
            if number < line
            and len(text.split()) > 1
            and not classifier.steps(text)
            and not classifier.has(text, "empty", "follows", "information")
        ]
        return [self._quoted(number, text) for number, text in candidates[-MOST_BEFORE:]]

    def repeated_before(self, offset: int) -> QuotedLine | None:
        """Return the last line before an offset that the log repeats, apart from its numbers, or None."""
        numbers, lines = replace(self, data=self.data[: max(offset - self.offset, 0)])._numbered_lines()
        kinds = Counter(map(kind_of, lines))
        repeated = (number for number in reversed(range(len(lines))) if kinds[kind_of(lines[number])] > 1)
        number = next((number for number in repeated if len(lines[number].split()) > 1), None)
        return None if number is None else self._quoted(numbers[number], lines[number])

    def advice(self, line: int) -> str:
        """Return the advice that the program printed in a line or in the lines after it, or an empty string."""
        lines = (text for number, text in zip(*self._numbered_lines(), strict=True) if number >= line)
        for text in itertools.islice(itertools.filterfalse(self.classifier.steps, lines), LAST_LINES):
            for sentence in _SENTENCE_END.split(self.classifier.without_label(text)):
                if self.classifier.has(sentence, "advice") and not self.classifier.has(text, "usual"):
                    return shortened(without_secrets(sentence), MOST_ADVICE)
        return ""

    def last_line(self) -> tuple[QuotedLine, bool] | None:
        """Return the last line, and whether it shows work that has not ended, or None if the log shows an end.

        Warnings, saved checkpoints and validation results after a step of a known total are not the last line.
        """
        (numbers, lines), classifier = self._numbered_lines(), self.classifier
        printed = [number for number, line in enumerate(lines) if _WORD.search(line)]
        has_closed = any(classifier.has(lines[number], "closes") for number in printed[-MOST_AFTER_END:])
        job_has_ended = bool(printed) and classifier.has(lines[printed[-1]], "epilog")
        printed = [number for number in printed if not classifier.has(lines[number], "aside", "epilog")]
        step = len(printed) - 1
        while step > 0 and classifier.is_between_steps(lines[printed[step]], lines[printed[step] - 1]):
            step -= 1
        is_epoch_end = any(classifier.has(lines[number], "between") for number in printed[step + 1 :])
        most = MOST_BEFORE_END_OF_EPOCH if is_epoch_end else 1
        if printed and classifier.is_partial_step(lines[printed[step]], most):
            return self._quoted(numbers[printed[step]], lines[printed[step]]), True
        if not printed or (has_closed and not classifier.has(lines[printed[-1]], "starts")):
            return None
        if classifier.has(lines[printed[-1]], "request"):  # a server that is idle may still run
            return self._quoted(numbers[printed[-1]], lines[printed[-1]]), False
        if not is_epoch_end:
            del printed[step + 1 :]
        is_open, is_step = classifier.is_open(lines[printed[-1]]), classifier.has(lines[printed[-1]], "progress")
        last, is_reached = printed[-1], self._is_total_reached(lines)
        kinds = [kind_of(lines[number]) for number in printed]
        ends_epoch = is_reached is False and kinds[-1] in kinds[:-1]
        for at in reversed(range(max(len(printed) - MOST_AFTER_END, 0), len(printed))):
            line, is_near = lines[printed[at]], at >= len(printed) - MOST_BEFORE_END
            is_result = is_near and classifier.has(line, "result") and kinds.count(kinds[at]) == 1
            ends = ("done", "end", "success") if is_near else ("done",)
            if is_result or (not (ends_epoch or is_open) and classifier.has(line, *ends)):
                return (self._quoted(numbers[last], lines[last]), True) if is_in_next_item(kinds, at) else None
            if classifier.has(line, "progress"):
                break
        is_complete = job_has_ended or (not is_open and (is_step or ends_cycle(kinds)))
        if (is_reached and is_open) or (is_complete and is_reached is not False):
            return None
        if not is_open and (ends_epoch or is_step):
            counters = (number for number in reversed(printed) if COUNTER.search(lines[number]))
            last, is_open = next(counters, last), True
        return self._quoted(numbers[last], lines[last]), is_open

    def _is_total_reached(self, lines: Sequence[str]) -> bool | None:
        """Return whether the run reached the number of epochs or steps that the log states, or None if unknown."""
        head = self.head.decode("utf-8", "replace").splitlines()
        return is_total_reached((line, bool(self.classifier.steps(line))) for line in (*head, *lines))

    def warnings(self) -> Iterator[QuotedLine]:
        """Yield the warnings of the software that runs the training, one per kind."""
        seen: set[str] = set()
        for number, line in zip(*self._numbered_lines(), strict=True):
            is_warning = self.classifier.has(line, "warns") and not self.classifier.has(line, "usual", "aside")
            if is_warning and kind_of(line) not in seen:
                seen.add(kind_of(line))
                yield self._quoted(number, line)

    def _quoted(self, number: int, line: str, *, more: int = 0, is_last: bool = False) -> QuotedLine:
        text, place = shortened(without_secrets(line), SHOWN), f"{self.log}:{number}"
        return QuotedLine(
            text=text, place=place, number=number, weight=self.classifier.weight(line) + more, is_last=is_last
        )

    def _numbered_lines(self, offset: int = -1) -> tuple[list[int], list[str]]:
        """Return the lines after the line at an offset, and their numbers.

        A line with carriage returns, such as a progress bar, is several lines with the same number.
        """
        end = _BYTES_BREAK.search(self.data, offset - self.offset) if offset >= self.offset else None
        start = end.end() if end else len(self.data) if offset >= self.offset else 0
        text = self.data[start:].decode("utf-8", "replace")
        lines, first = _BREAK.split(text), self.line + self.data.count(b"\n", 0, start)
        numbers = list(itertools.accumulate(("\n" in end for end in _BREAK.findall(text)), initial=first))
        if not lines[-1]:
            del lines[-1], numbers[-1]
        if self.is_cut and not start:  # the prefix that marks a secret may be cut off
            lines[:1] = [without_secrets(line, SHOWN) for line in lines[:1]]
        return numbers, lines


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotedLine:
    """A line of a log for printing.

    number: the number of the line in its log.
    weight: how well the line explains the failure.
    is_last: whether the line states that the run failed and is at the very end of the log.
    advice: the advice that the program printed in the line or in the lines after it.
    """

    text: str
    place: str
    number: int
    weight: int
    is_last: bool = False
    advice: str = ""


def kind_of(line: str) -> str:
    """Return a line without ranks, times and addresses, so that equal messages from several ranks compare equal."""
    return _VARIES.sub("", line).strip(" :.")


def shortened(text: str, most: int) -> str:
    """Return a text on one line with at most `most` characters, cut in the middle of long paths and after a word."""
    text = " ".join(text.split())
    text = text if len(text) <= most else _LONG_PATH.sub(r"\1...\2", text)
    return text if len(text) <= most else f"{text[: most - 4].rpartition(' ')[0] or text[: most - 4]} ..."


def _before_many_lines(lines: Sequence[str]) -> int:
    """Return the index of the first of the last MANY lines that are not blank, or -1 if there are fewer lines."""
    printed = [number for number, line in enumerate(lines) if line.strip()]
    return printed[-MANY] if len(printed) >= MANY else -1


def quotes(tails: Iterable[Tail], kinds: Sequence[str], place: str, *, is_stop: bool) -> tuple[QuotedLine, ...]:
    """Return the few lines that describe a failure best, in order.

    kinds: the kinds of lines already shown.
    place: the place of the failure. A line long before it must state an error.
    is_stop: whether the run was stopped from outside. A line must then state the cause of an error.
    """
    begin = int(place.rpartition(":")[2] or 0) - MOST_NEAR
    lines = [line for tail in tails for line in tail.failure_lines() if not is_shown(line.text, kinds)]
    lines = [line for line in lines if line.weight > PLAIN * is_stop - (not is_stop and line.number >= begin)]
    best = sorted(lines, key=lambda line: -line.weight)[:MOST_QUOTES]
    last = next((line for line in reversed(lines) if line.weight > PLAIN), None)
    if last and last not in best:  # the line that ended the run, after many other errors
        best[-1] = last
    return tuple(line for line in lines if line in best)


def warnings(tails: Iterable[Tail]) -> Iterator[QuotedLine]:
    """Return the first few warnings at the ends of logs, one per kind and log."""
    return itertools.islice((line for tail in tails for line in tail.warnings()), MOST_QUOTES)


def is_shown(line: str, kinds: Sequence[str]) -> bool:
    """Return whether lines of the given kinds contain a line completely or mostly."""
    kind = kind_of(line)
    return any(kind in other or (other in kind and len(other) >= MOST_OF * len(kind)) for other in kinds)


def decisive_line(tails: Iterable[Tail]) -> QuotedLine | None:
    """Return the line at the ends of logs that describes a failure best, or None."""
    lines = [replace(line, advice=tail.advice(line.number)) for tail in tails if (line := tail.decisive_line())]
    return max(lines, key=lambda line: (line.is_last, line.weight), default=None)

"""Scanner that searches a log for all known lines in one pass.

Each known line contains a fixed text. The scanner searches for all texts at once, and examines only lines with a text.
"""

from __future__ import annotations

import bisect
import functools
import operator
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import BinaryIO, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from uenvtool.doctor.log.blocks import AHEAD_BYTES, Block, blocks
from uenvtool.doctor.log.classifier import ERROR, IGNORED, LineClassifier, moment
from uenvtool.doctor.log.sightings import MOST_NAMES, MOST_RUNS, FirstLine, Sighting, Sightings
from uenvtool.doctor.log.tail import NEAR_BYTES, TAIL_BYTES, Tail, shortened
from uenvtool.doctor.log.traceback import CHAINED, CUT_OFF, HEADER, exception_text
from uenvtool.doctor.nodes import numbers_of
from uenvtool.knowledge.finding import BROKEN, STOPPED, Known, LogLine
from uenvtool.knowledge.secrets import without_secrets

AROUND = 1_500
"""The number of characters of a line that are examined before and after a known text."""
HEAD_BYTES = 1 << 14
FOLLOWING_BYTES, ABOVE_BYTES = 4_000, 2_000
SHOWN, SHOWN_BEFORE = 300, 60
MOST_IN_LINE, SPACING = 10, 256
"""The number of known texts examined per line, plus one per SPACING bytes in a long line."""
MOST_UNENDED = 32
"""The maximum number of incomplete tracebacks per AHEAD_BYTES, because the search for the end of each takes long."""
MOST_CHAINED = 32
"""The maximum number of exceptions in a chain of tracebacks."""
MOST_DETAILED = 100
"""The number of lines per finding whose details are kept. Removing secrets from more lines takes long."""
MOST_DETAIL = 300
"""The maximum number of characters of a detail. A limit inside a pattern would make the pattern large and slow."""
MOST_VARIABLES = 500
TEST, DEVICES = "test", "devices"
"""The facts that name a network test and its ranks."""
START, ALWAYS, AFTER_FAILURE = "start", "always", "after a failure"
"""The fact for a line at the start of a run. Its values state when the line begins another run."""
MOST_REPEATED = 2
"""If the first line of a log appears again within this many lines, it does not begin a run."""
MIN_TEXT, MIN_SECONDS = 8, 30
"""The minimum length of the text of the first line, and the minimum number of seconds until the next run."""
MOST_STARTS, MOST_OTHERS = 4_000, 1_000
"""The maximum number of lines of a block that are like the first line, and of other lines that contain its text."""
MOST_UNTIMED = 20
"""The maximum number of runs in a block that begin without a time. More such lines begin items of one run."""
FINDING, FACT, MISSING = "finding", "fact", "missing"
_PRINTER = re.compile(rb"[\w.-]{1,255}:\d{1,10}:\d{1,10} \[\d{1,4}\] ")
"""Matches the start of an NCCL line: HOST:PROCESS:THREAD [GPU]."""
_TIME = re.compile(rb"(?:(?:\d{1,7}: )?\[?\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?)?")
"""Matches the time at the start of a line, or after the label of `srun --label`, or nothing."""
_VARYING = re.compile(
    rb"\[?\b\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?"
    rb"|\b\d{1,4}[-/]\d\d?[-/]\d{1,4}\b|\b\d\d?:\d\d(?::\d\d)?\b"
    rb"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [\w :]{3,40}\b\d{4}\b"  # of date(1)
    rb"|(?:^| )--?[A-Za-z][\w.-]*(?:[ =](?!-)\S+)?|(?<=\w)=\S+|[\w-]{1,60}\.(?:ya?ml|json|toml|cfg|conf|ini)\b"
    rb"|(?i:\b(?:run|job|attempt|experiment|seed)[ #:_]{0,3}\d+)|\b\d{5,}\b|\b(?=[a-f]{0,40}\d)[\da-f]{8,}\b"
    rb"|^\d{1,7}: |\r"
)
"""Matches what differs between the first lines of two runs: times, dates, options, configurations, IDs, labels."""
_BLANK = re.compile(rb"\s*")
_UNINDENTED = re.compile(rb"\n(?!\d{1,7}: [ \t])(?:\[rank\d+\]: ?|\d+: ?)?[^ \n\t\[][^\n]*")
_Match = tuple[int, int, int]
"""The number of a known text, and the start and end of a place in a block that contains it."""


class _Place(NamedTuple):
    """An offset in a block, and the number of its line in the log."""

    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class _Target:
    """A known line and its meaning: it shows a finding or a fact, or it refutes a finding."""

    kind: str
    name: str
    line: LogLine

    @property
    def needs_only_text(self) -> bool:
        line = self.line
        patterns = (line.match, line.unless, line.near, line.not_near, line.after, line.not_after)
        return all(pattern is None for pattern in patterns) and not (line.fix or line.command)

    @property
    def is_final(self) -> bool:
        """Return whether a second such line adds no information."""
        return self.needs_only_text and (
            self.kind == MISSING or (self.kind == FACT and bool(self.line.value) and self.name != START)
        )


class Scanner:
    """A scanner that searches any number of logs for the known lines."""

    def __init__(self, known: Known) -> None:
        self.classifier = LineClassifier(known.words)
        self._broken = {name for name, entry in known.findings.items() if entry.severity == BROKEN}
        self._failures = {name for name in self._broken if known.findings[name].fault != STOPPED}
        targets: dict[bytes, list[_Target]] = defaultdict(list)
        for target in _targets(known):
            targets[target.line.text.encode()].append(target)
        self._targets = list(targets.values())
        self._text_only = [all(target.needs_only_text for target in group) for group in self._targets]
        self._final = {number for number, group in enumerate(self._targets) if all(target.is_final for target in group)}
        self._texts = list(targets)
        self._header = self._texts.index(HEADER.encode()) if HEADER.encode() in targets else -1
        self._automaton = functools.lru_cache(maxsize=4)(self._automaton_without)

    def _automaton_without(self, settled: frozenset[int]) -> tuple[BytesAhoCorasick, list[int]]:
        numbers = [number for number in range(len(self._texts)) if number not in settled]
        texts = [self._texts[number] for number in numbers]
        return BytesAhoCorasick(texts, implementation=Implementation.DFA), numbers

    def _matches(self, block: Block, settled: Iterable[int]) -> Iterator[_Match]:
        """Yield the matches of the known texts, except for the settled ones, sorted by end and then longest first."""
        automaton, numbers = self._automaton(frozenset(settled))
        for index, start, end in automaton.find_matches_as_indexes(block.data, overlapping=True):
            yield numbers[index], start, end

    def read(self, stream: BinaryIO, log_name: str, log_number: int = 1) -> Sightings:
        """Return the matches in the last run of a log, with the earlier runs, and a note if a part cannot be read."""
        before = last = Block(data=b"", line=1, offset=0, start=0, end=0)
        bounds = _Bounds()
        runs = _Runs(Sightings(self.classifier, logs=log_number), self._broken, self._broken - self._failures)
        unread, head = [], b""
        try:
            for block in blocks(stream):
                before, last = last.last_bytes(TAIL_BYTES + 2 * AHEAD_BYTES), block
                if not block.offset + block.start:
                    runs.first_line, head = _FirstLines.of(block, self.classifier), block.data[:HEAD_BYTES]
                    runs.began = _seconds(block.data, 0)
                self._read_block(last, log_name, runs, bounds)
        except (OSError, EOFError) as error:
            unread.append(f"rest of {log_name}: {getattr(error, 'strerror', None) or error}")
        if bounds.skipped:
            why = f"{bounds.skipped:,} known texts are too close together, starting at line {bounds.first_line}"
            unread.append(f"parts of {log_name}: {why}")
        most = max(TAIL_BYTES // log_number, TAIL_BYTES // 4)  # a job may have thousands of logs
        if between := before.data[: last.offset - before.offset]:
            last = replace(last, data=between + last.data, line=before.line, offset=before.offset, is_cut=before.is_cut)
        end_line = last.line + last.data.count(b"\n")
        tail = Tail.until(log_name, last, len(last.data), end_line, self.classifier, most)
        seen = runs.last(replace(tail, head=head if tail.offset else b""))
        seen.unread += unread
        whole = last.data.rstrip(b"\n")
        seen.lines = last.line + whole.count(b"\n") if whole else last.line - 1
        return seen

    def _read_block(self, block: Block, log_name: str, runs: _Runs, bounds: _Bounds) -> None:
        """Add the matches in a block to the current run, and to the runs that begin in the block."""
        bounds.begin(block)
        first_place = _Place(block.start, block.line + block.data.count(b"\n", 0, block.start))
        place = self._read(block, self._matches(block, runs.seen.settled), first_place, log_name, runs, bounds)
        if place is None:
            return
        automaton, _ = self._automaton(frozenset())  # of all texts, so an index in it is the number of a text
        matches = automaton.find_matches_as_indexes(block.data, overlapping=True)
        while place is not None:
            bounds.begin_run()
            first = bisect.bisect_left(matches, place.offset, key=operator.itemgetter(2))
            rest = (matches[at] for at in range(first, len(matches)))
            place = self._read(block, rest, place, log_name, runs, bounds)

    def _read(
        self, block: Block, matches: Iterable[_Match], place: _Place, log_name: str, runs: _Runs, bounds: _Bounds
    ) -> _Place | None:
        """Add the matches after a place in a block to the current run. Return the place of the next run, or None."""
        (counted, line), quiet, seen = place, 0, runs.seen
        restart = runs.restart_in(block, counted)
        floors: dict[int, int] = {}
        for number, start, end in matches:
            if number in seen.settled or not max(place.offset, quiet) <= start < block.end:
                continue
            if 0 <= restart <= start:
                break
            if not bounds.allows(start, is_header=number == self._header):
                bounds.first_line = bounds.first_line or line + block.data.count(b"\n", counted, start)
                _record_unexamined(self._targets[number], block.offset + start, seen)
                continue
            is_caught, last = False, end
            if number == self._header:
                last = _end_of_traceback(block.data, end)
                is_ignored = IGNORED.search(_line_above(block.data, start)) is not None
                is_caught = self._is_traceback_caught(block.data, start, last)
                quiet = last if is_ignored or is_caught else quiet
                if is_ignored:
                    continue
            if number in self._final:
                seen.settled.add(number)
            if self._text_only[number] and _is_repeated(block.data, number, start, seen.printed):
                for target in self._targets[number]:
                    if target.kind == FINDING:
                        seen.findings[target.name].count += 1
                continue
            context = _context_of(block.data, start, end, floors.get(number, 0))
            bounds.add(context)
            floors[number] = end
            for target in self._targets[number]:
                if target.kind == FINDING and target.name in seen.findings and seen.findings[target.name].is_full:
                    _record_unexamined([target], block.offset + start, seen)
                    continue
                match = context.matched(target.line)
                if match is None or (target.kind == FINDING and self.classifier.is_no_sign(context.line)):
                    continue
                groups, length = match
                floors[number] = max(floors[number], context.start + length)
                if target.name == START:
                    if runs.begins_at(groups["value"] or ""):
                        line += block.data.count(b"\n", counted, start)
                        begun = runs.begin(_Place(context.start, line), block, log_name)
                        return begun if groups["value"] == AFTER_FAILURE else _Place(end, line)
                    continue
                if target.kind == FINDING:
                    line, counted = line + block.data.count(b"\n", counted, start), start
                    was_caught = target.name in self._failures and (
                        is_caught or self._is_caught(context, block.data, start, last)
                    )
                    sighting = (seen.caught if was_caught else seen.findings)[target.name]
                    _add_finding(sighting, groups, (context, target.line), (log_name, block, start, line), seen)
                    restart = runs.restart_in(block, end)
                _add(target, groups, context, seen)
        else:  # no known text follows
            if restart < 0:
                return None
        return runs.begin(_Place(restart, line + block.data.count(b"\n", counted, restart)), block, log_name)

    def _is_traceback_caught(self, data: bytes, start: int, end: int) -> bool:
        """Return whether the line before or after a traceback states that the program caught the error."""
        above = _line_above(data, start)
        is_caught = self.classifier.catches(above) or self.classifier.has(above, "logged")
        return self._continues(data, end, is_caught=is_caught)

    def _is_caught(self, context: _Context, data: bytes, start: int, end: int) -> bool:
        """Return whether a message, or the line before or after it, states that the program caught the error.

        The last message in a log is not caught.
        """
        is_caught = self.classifier.has(context.line, "caught") or self.classifier.catches(_line_above(data, start))
        return self._continues(data, end, is_caught=is_caught)

    def _continues(self, data: bytes, at: int, *, is_caught: bool) -> bool:
        """Return whether the program printed more after an error that it caught.

        is_caught: whether the error is known to be caught. Otherwise, the next line must state that.
        """
        at = _next_line(data, at)
        if not is_caught:
            is_caught = self.classifier.has(_line_at(data, at), "caught")
            at = _next_line(data, at)
        return is_caught and at < len(data)


class _Runs:
    """The runs in a log: the matches of the current run, and of the earlier runs if a job or a shell repeats.

    first_line: the first lines of the log. They begin another run if they appear again after the run is over.
    began: the time at which the current run printed them, in seconds, or None.
    """

    def __init__(self, seen: Sightings, failures: Collection[str], stops: Collection[str]) -> None:
        self.seen, self._failures, self._stops = seen, failures, frozenset(stops)
        self.first_line = _FirstLines()
        self.began: float | None = None
        self._is_logged = False
        self._searched, self._next = (-1, -1, False), -1
        self._starts = _Starts()
        self._judged = 0
        self._earlier: list[Sightings] = []
        self._jobs: dict[str, str] = {}

    def begins_at(self, value: str) -> bool:
        """Return whether a line that can be at the start of a run begins another run.

        A line with a job ID does if the ID differs from the last one of its kind, or if Slurm stopped and requeued the
        job. Other lines do only after a failure, because each rank of a run may print such a line.
        """
        kind, _, job = value.rpartition(" ")
        if job.isdecimal():
            before, self._jobs[kind] = self._jobs.get(kind, job), job
            return before != job or (not kind and self._has_any(self._stops))
        return value == ALWAYS or self._has_any(self._failures)

    def _has_any(self, names: Collection[str]) -> bool:
        findings = self.seen.findings
        return any(findings[name].level == ERROR for name in findings if name in names)

    def restart_in(self, block: Block, at: int) -> int:
        """Return the offset in a block after `at` where the log's first line begins another run, or -1.

        After a failure, it does if the run contains it once, because ranks may have printed several. Without a failure,
        the run must be over, so that the runs between two failures are counted.
        """
        if not self.first_line.text:
            return -1
        has_failed = self._has_any(self._failures)
        search = (block.offset, self.seen.offset, has_failed)
        if self._searched == search:
            return self._next
        if self._searched[0] != block.offset:
            self._starts = self.first_line.found_in(block)
        begin, starts = self.seen.offset - block.offset, self._starts.offsets
        first = bisect.bisect_left(starts, at)
        inside = first - bisect.bisect_left(starts, begin)
        later = bisect.bisect_left(starts, max(at, begin + 1))
        self._searched, self._next = search, -1
        if has_failed and (inside == 1 or (begin < 0 and not inside)):
            self._next = starts[later] if later < len(starts) else -1
        else:
            self._next = self._after_end(block, max(at, begin + 1))
        return self._next

    def _after_end(self, block: Block, at: int) -> int:
        """Return the offset after `at` where the log's first lines appear again after the run is over, or -1.

        They appear long after the run began. If they have no time, the run must have shown progress and an end. They
        must not appear so often that they are the first lines of items.
        """
        timed = self._starts.timed
        if self.began is not None and timed:
            index = bisect.bisect_left(timed, self.began + MIN_SECONDS, key=operator.itemgetter(0))
            return next((offset for _, offset in timed[index : index + MOST_REPEATED] if offset >= at), -1)
        repeated = self._starts.repeated if len(self._starts.repeated) <= MOST_UNTIMED else []
        for offset in repeated[bisect.bisect_left(repeated, at) :][: MOST_RUNS - self._judged]:
            self._judged += 1
            tail = Tail.until("", block, offset, 1, self.seen.classifier, NEAR_BYTES).since(self.seen.offset)
            if tail.shows_run and tail.last_line() is None:
                return offset
        return -1

    def begin(self, place: _Place, block: Block, log_name: str) -> _Place:
        """Begin another run at a place in a block. Return the place."""
        since = self._earlier[-1].offset if self._earlier else self.seen.offset
        most = min(TAIL_BYTES // 4, block.offset + place.offset - since + NEAR_BYTES)
        earlier = self.last(Tail.until(log_name, block, place.offset, place.line, self.seen.classifier, most))
        self._earlier = [*earlier.earlier, replace(earlier, earlier=[])][-MOST_RUNS:]
        self.seen = Sightings(self.seen.classifier, logs=self.seen.logs, offset=block.offset + place.offset)
        self._is_logged = _is_logged(block.data, place.offset)
        self.began = _seconds(block.data, place.offset)
        return place

    def last(self, tail: Tail) -> Sightings:
        """Return the matches of the last run. A part without progress or a problem belongs to the run before it.

        A part of which the tail contains only the end is long, and so a run.
        """
        seen, earlier, is_long = self.seen, self._earlier, tail.offset > self.seen.offset
        seen.tails[seen.logs] = tail.since(seen.offset)
        if earlier and not (is_long or seen.findings or self._has_run(seen.tails[seen.logs], earlier[-1])):
            seen.tails[seen.logs] = tail.since(earlier[-1].offset)
            earlier[-1].merge(seen)
            *earlier, seen = earlier
        seen.earlier = earlier
        return seen

    def _has_run(self, tail: Tail, before: Sightings) -> bool:
        """Return whether a program ran in the last part of a log.

        After Slurm stopped a job, any output shows this. If a logger printed the first line, a second line does.
        """
        if tail.shows_run or (self._is_logged and b"\n" in tail.data.strip()):
            return True
        return not self._stops.isdisjoint(before.findings) and tail.has_output_after(-1)


@dataclass(frozen=True, kw_only=True, slots=True)
class _FirstLines:
    """The first line with several words in a log, and the line after it, without times, IDs and options.

    text: the longest part of the first line that is the same in each run.
    """

    text: bytes = b""
    first: bytes = b""
    second: bytes = b""

    @classmethod
    def of(cls, block: Block, classifier: LineClassifier) -> _FirstLines:
        """Return the first lines of a log, or nothing if one of the next lines is like the first, or it is progress."""
        lines = block.data[:AHEAD_BYTES].split(b"\n")[:-1]
        long = (
            at for at, line in enumerate(lines) if len(_same_part(line).split()) > 2 and HEADER.encode() not in line
        )
        if (number := next(long, -1)) < 0:
            return cls()
        first, *others = (_same_part(line) for line in lines[number : number + 1 + MOST_REPEATED])
        text = max(_VARYING.split(lines[number]), key=len).strip()
        line = lines[number].decode("utf-8", "replace").expandtabs().rstrip("\r")
        is_text = line.isprintable() and "\ufffd" not in line  # not binary data
        if not is_text or classifier.has(line, "progress") or first in others or len(text) < MIN_TEXT:
            return cls()
        return cls(text=text, first=first, second=others[0] if others else b"")

    def found_in(self, block: Block) -> _Starts:
        """Return the places of the first line in a block, or none if too many lines are like it or contain its text."""
        starts, at, data, others = _Starts(), 0, block.data, 0
        while (at := data.find(self.text, at, block.end)) >= 0 and others < MOST_OTHERS:
            begin, end = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
            at += len(self.text)
            if len(starts.offsets) >= MOST_STARTS:
                return _Starts()
            if end < 0 or end - begin > AROUND or _same_part(data[begin:end]) != self.first:
                others += 1
                continue
            starts.offsets.append(begin)
            if _same_part(data[end + 1 : end + AROUND].partition(b"\n")[0]) == self.second:
                starts.repeated.append(begin)
                if (seconds := _seconds(data, begin)) is not None:
                    starts.timed.append((seconds, begin))
        return starts if others < MOST_OTHERS else _Starts()


@dataclass(frozen=True, slots=True)
class _Starts:
    """The offsets of the first line of a log in a block.

    repeated: the offsets of the first lines before a copy of the log's second line.
    timed: the times in seconds and the offsets of these lines, if they begin with a time.
    """

    offsets: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    timed: list[tuple[float, int]] = field(default_factory=list)


def _same_part(line: bytes) -> bytes:
    return b" ".join(_VARYING.sub(b" ", line).split())


def _seconds(data: bytes, at: int) -> float | None:
    """Return the time of a line in seconds, or None if it begins without one."""
    try:
        return datetime.fromisoformat(moment(_line_at(data, at))[:19]).timestamp() if _is_logged(data, at) else None
    except ValueError:
        return None


def _is_logged(data: bytes, at: int) -> bool:
    """Return whether a line begins with a time."""
    time = _TIME.match(data, at)
    return bool(time and time[0])


def _line_above(data: bytes, at: int) -> str:
    start = data.rfind(b"\n", max(at - AROUND, 0), at)
    above = data[max(start - AROUND, 0) : max(start, 0)].rstrip()
    return above[above.rfind(b"\n") + 1 :].decode("utf-8", "replace")


def _next_line(data: bytes, at: int) -> int:
    """Return the offset of the text in the next line that is not blank, or the end of the data without such a line.

    A line that does not end within AHEAD_BYTES has no next line.
    """
    end = data.find(b"\n", at, at + AHEAD_BYTES)
    match = _BLANK.match(data, end) if end >= 0 else None
    return match.end() if match else len(data)


def _line_at(data: bytes, at: int) -> str:
    return data[at : at + 2 * AROUND].partition(b"\n")[0].decode("utf-8", "replace")


def _end_of_traceback(data: bytes, at: int) -> int:
    """Return the offset after the last exception of a traceback and of the chain that it begins."""
    for _ in range(MOST_CHAINED):
        last = _UNINDENTED.search(data, at, at + AHEAD_BYTES)
        if last is None:
            return min(at + AHEAD_BYTES, len(data))
        at, following = last.end(), _next_line(data, last.end())
        if not _line_at(data, following).startswith(CHAINED):
            break
        if (header := data.find(HEADER.encode(), following, following + AHEAD_BYTES)) < 0:
            break
        at = header
    return at


def _record_unexamined(targets: Iterable[_Target], offset: int, seen: Sightings) -> None:
    for target in targets:
        if target.kind == FINDING and target.name in seen.findings:
            seen.findings[target.name].last[seen.logs] = offset


class _Bounds:
    """Limits on the known texts that are examined close to each other. It counts the texts that are skipped."""

    def __init__(self) -> None:
        self.skipped, self.first_line = 0, 0

    def begin(self, block: Block) -> None:
        self._data, self._first, self._unended = block.data, 0, 0
        self.begin_run()

    def begin_run(self) -> None:
        self._line, self._end, self._examined = 0, 0, 0

    def allows(self, start: int, *, is_header: bool) -> bool:
        if start >= self._end:
            self._line, self._examined = start, 0
            self._end = self._data.find(b"\n", start) + 1 or len(self._data)
        if is_header and start - self._first >= AHEAD_BYTES:
            self._first, self._unended = start, 0
        is_allowed = self._examined < MOST_IN_LINE + (start - self._line) // SPACING
        is_allowed = is_allowed and not (is_header and self._unended >= MOST_UNENDED)
        self._examined += is_allowed
        self.skipped += not is_allowed
        return is_allowed

    def add(self, context: _Context) -> None:
        self._unended += context.text.startswith(CUT_OFF)


def _is_repeated(data: bytes, number: int, start: int, printed: set[tuple[int, bytes]]) -> bool:
    """Return whether the same NCCL process printed the same text before."""
    printer = _PRINTER.match(data, data.rfind(b"\n", max(start - AROUND, 0), start) + 1, start)
    if printer is None:
        return False
    before = (number, printer[0]) in printed
    if not before and len(printed) < MOST_NAMES:
        printed.add((number, printer[0]))
    return before


def _targets(known: Known) -> Iterator[_Target]:
    for fact in known.facts.values():
        yield from (_Target(FACT, fact.name, line) for line in fact.log)
    for finding in known.findings.values():
        yield from (_Target(FINDING, finding.id, line) for line in finding.log)
        yield from (_Target(MISSING, finding.id, line) for line in finding.missing)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Context:
    """A known text with its surroundings in a log.

    before: the part of the line before the text.
    start: the offset of the line in the block.
    following: the bytes from the start of the line.
    below: the number of lines from the header of a traceback to its exception.
    above: the bytes before the line.
    """

    text: str
    before: str
    line: str
    start: int
    following: bytes
    below: int = 0
    above: bytes = b""

    @property
    def moment(self) -> str:
        return moment(self.before + self.line)

    def cleaned(self, log_line: LogLine) -> _Context:
        """Return the context with secrets removed, and without `following` unless `log_line` searches it."""
        following = b""
        if log_line.near or log_line.not_near:
            following = without_secrets(self.following.decode("utf-8", "replace")).encode()
        return replace(self, line=without_secrets(self.line), following=following)

    def matched(self, log_line: LogLine) -> tuple[dict[str, str | None], int] | None:
        """Return the groups of the match with a known line and its length in bytes, or None without a match."""
        groups: dict[str, str | None] = {"value": log_line.value} if log_line.value else {}
        length = 0
        if log_line.unless is not None and log_line.unless.search(self.line):
            return None
        above = self.above.decode("utf-8", "replace") if log_line.after or log_line.not_after else ""
        if log_line.after is not None and not log_line.after.search(above):
            return None
        if log_line.not_after is not None and log_line.not_after.search(above):
            return None
        if log_line.match is not None:
            match = log_line.match.search(self.line)
            if match is None:
                return None
            groups.update(match.groupdict())
            length = len(self.line[: match.end()].encode())
        if log_line.near is not None or log_line.not_near is not None:
            next_lines = self.following.decode("utf-8", "replace")
            near = log_line.near.search(next_lines) if log_line.near else None
            if (log_line.near and near is None) or (log_line.not_near and log_line.not_near.search(next_lines)):
                return None
            groups.update(near.groupdict() if near else {})
        if host := groups.get("host"):
            groups["detail"] = f"{host}:{groups['port']}"
        if detail := groups.get("detail"):
            groups["detail"] = shortened(detail, MOST_DETAIL)
        return groups, length


def _context_of(data: bytes, start: int, end: int, floor: int) -> _Context:
    """Return the context of a text. The summary of a traceback replaces its header line.

    floor: the offset after the previous match of the same text. The line begins there at the earliest, because two
        ranks may print into one line. A line also begins after a carriage return, which progress bars print.
    """
    floor = min(max(start - AROUND, floor), start)
    low = max(data.rfind(b"\n", floor, start) + 1, data.rfind(b"\r", floor, start) + 1, floor)
    high = data.find(b"\n", end, end + AROUND)
    high = high if high >= 0 else min(end + AROUND, len(data))
    before, text = data[low:start].decode("utf-8", "replace"), data[start:end].decode("utf-8", "replace")
    line = before + data[start:high].decode("utf-8", "replace").rstrip("\r")
    below = 0
    if text == HEADER:
        text, below = exception_text(before, data[low : start + AHEAD_BYTES].decode("utf-8", "replace"))
        line = text
    return _Context(
        text=text,
        before=before,
        line=line,
        start=low,
        following=data[low : start + FOLLOWING_BYTES],
        below=below,
        above=data[max(low - ABOVE_BYTES, 0) : low],
    )


def _first_line(context: _Context, groups: dict[str, str | None], order: tuple[int, int], around: Tail) -> FirstLine:
    whole = " ".join(context.line.split())
    at = whole.find(" ".join(context.text.split()))
    first = 0 if len(whole) <= SHOWN or len(context.before) < SHOWN_BEFORE else max(at - SHOWN_BEFORE, 0)
    first = whole.find(" ", first, max(at, first)) + 1 if first else 0
    named = next(numbers_of(groups.get("ranks") or groups.get("rank") or ""), None)
    return FirstLine(
        place=f"{around.log}:{order[1]}",
        order=(order[0], order[1] + context.below),
        text=shortened(whole[first:], SHOWN) if at >= 0 or len(context.before) < AROUND else "",
        detail=groups.get("detail") or "",
        node=groups.get("node") or around.classifier.node(context.before),
        rank=around.classifier.rank(context.before) if named is None else named,
        moment=context.moment,
        around=around,
    )


def _add_finding(
    sighting: Sighting,
    groups: dict[str, str | None],
    matched: tuple[_Context, LogLine],
    place: tuple[str, Block, int, int],
    seen: Sightings,
) -> None:
    (context, log_line), (_, block, start, line) = matched, place
    cleaned: _Context | None = None
    if sighting.count < MOST_DETAILED:  # the groups must come from text without secrets
        cleaned = context.cleaned(log_line)
        groups = dict((cleaned.matched(log_line) or ({}, 0))[0])
    elif "detail" in groups:
        groups = {**groups, "detail": None}
    if sighting.is_news(groups, context.moment):
        around = Tail.around(*place, seen.classifier).since(seen.offset)
        first = _first_line(cleaned or context.cleaned(log_line), groups, (seen.logs, line), around)
        sighting.first = replace(first, fix=log_line.fix, command=log_line.command)
    sighting.last[seen.logs] = block.offset + start
    classifier, node = seen.classifier, groups.get("node") or seen.classifier.node(context.before)
    sighting.add(node, classifier.rank(context.before), groups, classifier.level(context.line))
    if groups.get("collective"):
        seen.collective(str(groups["collective"]))


def _add(target: _Target, groups: dict[str, str | None], context: _Context, seen: Sightings) -> None:
    if target.kind == MISSING:
        seen.refuted.add(target.name)
        return
    node = groups.get("node") or seen.classifier.node(context.before)
    if node and len(seen.hosts) < MOST_NAMES:
        seen.hosts.add(node)
    if target.kind == FINDING:
        return
    if "busbw" in groups:
        seen.rows.add(groups)
        return
    value, rank_text = groups.get("value") or "", groups.get("rank") or ""
    if variable := groups.get("variable"):
        if len(seen.variables) < MOST_VARIABLES:
            seen.variables[variable] = value[:MOST_DETAIL]
        return
    if target.name == TEST:
        seen.rows.test = value
        seen.rows.add_osu(groups.get("osu") or "")
    elif target.name == DEVICES and value.isdecimal():
        seen.rows.ranks = max(seen.rows.ranks, int(value[:9]) + 1)
    if groups.get("group") is None:
        seen.fact(target.name, value, node)
    elif rank_text.isdecimal() and value.isdecimal():
        seen.reached(str(groups["group"]), int(rank_text[:9]), int(value[:18]))


def read_logs(logs: Iterable[tuple[str, BinaryIO]], scanner: Scanner) -> Sightings:
    """Return the matches in logs, each of which is given as its name and a stream."""
    seen = Sightings(scanner.classifier)
    for number, (log_name, stream) in enumerate(logs, 1):
        seen.merge(scanner.read(stream, log_name, number))
    return seen

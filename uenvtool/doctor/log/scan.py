"""Searches a log for the lines that are known, all of them in one pass.

A text that each known line contains is searched for as bytes; only where one is found is the line itself looked at.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from ahocorasick_rs import BytesAhoCorasick, Implementation

from uenvtool.doctor.log.blocks import AHEAD_BYTES, Block, blocks
from uenvtool.doctor.log.sightings import MOST_NAMES, FirstLine, Sightings
from uenvtool.doctor.log.tail import Tail, shortened
from uenvtool.doctor.log.traceback import CUT_OFF, HEADER, exception_text
from uenvtool.doctor.log.words import IGNORED, Words, moment
from uenvtool.doctor.nodes import numbers_of
from uenvtool.knowledge.finding import Known, LogLine
from uenvtool.knowledge.secrets import without_secrets

AROUND = 1_500
"""Characters of a line that are looked at before and behind the text that was found in it."""
NEAR = 4_000
SHOWN, SHOWN_BEFORE = 300, 60
MOST_IN_LINE, APART = 10, 256
"""So many known texts of a line are looked at, and of a long line one more for so many bytes."""
MOST_UNENDED = 32
"""So many tracebacks without an end are read within AHEAD_BYTES of each other: each is looked for in as many bytes."""
MOST_LOOKS = 100
"""So many lines of a finding give details; cleaning more of them takes long, and says nothing new."""
MOST_DETAIL = 300
"""Characters of what a line gives that are kept. A bound in a pattern would make it large, and slow."""
MOST_VARIABLES = 500
TEST, DEVICES = "test", "devices"
"""The facts that say which test of the network prints, and a rank of it."""
FINDING, FACT, MISSING = "finding", "fact", "missing"
_PRINTER = re.compile(rb"[\w.-]{1,255}:\d{1,10}:\d{1,10} \[\d{1,4}\] ")
"""How NCCL begins a line: HOST:PROCESS:THREAD [GPU]."""
_UNINDENTED = re.compile(rb"\n(?:\[rank\d+\]: ?|\d+: ?)?[^ \n\t\[][^\n]*")


Search = Callable[[bytes], Iterable[tuple[int, int, int]]]
"""Returns which text was found and its place, as number, start and end: by their ends, the longest first of those."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a line says: a finding, a fact, or that a finding is none."""

    kind: str
    name: str
    line: LogLine

    @property
    def is_text_alone(self) -> bool:
        """Tell if the text decides by itself that a line is the one."""
        line = self.line
        return line.match is None and line.unless is None and line.near is None and line.not_near is None

    @property
    def says_all(self) -> bool:
        """Tell if a second line can add nothing, whoever prints it: what the text alone gives or refutes."""
        return self.is_text_alone and (self.kind == MISSING or (self.kind == FACT and bool(self.line.value)))


class Scanner:
    """Knows the lines, and reads any number of logs."""

    def __init__(self, known: Known) -> None:
        self.words = Words(known.words)
        targets: dict[bytes, list[_Target]] = defaultdict(list)
        for target in _targets(known):
            targets[target.line.text.encode()].append(target)
        self._targets = list(targets.values())
        self._whole = [all(target.is_text_alone for target in found) for found in self._targets]
        self._once = {number for number, found in enumerate(self._targets) if all(it.says_all for it in found)}
        self._texts = list(targets)
        self._header = self._texts.index(HEADER.encode()) if HEADER.encode() in targets else -1
        self._search = functools.lru_cache(maxsize=4)(self._search_without)

    def _search_without(self, settled: frozenset[int]) -> tuple[Search, list[int]]:
        numbers = [number for number in range(len(self._texts)) if number not in settled]
        texts = BytesAhoCorasick([self._texts[number] for number in numbers], implementation=Implementation.DFA)
        return functools.partial(texts.find_matches_as_indexes, overlapping=True), numbers

    def read(self, stream: BinaryIO, shown: str, seen: Sightings) -> None:
        """Add what a log says. shown: its name in the report. A log that cannot be read to its end is noted so."""
        seen.logs += 1
        last, bounds = Block(data=b"", line=1, offset=0, start=0, end=0), _Bounds()
        try:
            for last in blocks(stream):
                self._read(last, shown, seen, bounds)
        except (OSError, EOFError) as error:
            seen.unread.append(f"{shown} is read in part: {getattr(error, 'strerror', None) or error}")
        if bounds.passed:
            why = f"{bounds.passed:,} known texts stand too close together, from line {bounds.first_line} on"
            seen.unread.append(f"{shown} is looked at in part: {why}")
        seen.tails.append(Tail.of(shown, last, self.words))
        whole = last.data.rstrip(b"\n")
        seen.lines += last.line + whole.count(b"\n") if whole else last.line - 1

    def _read(self, block: Block, shown: str, seen: Sightings, bounds: _Bounds) -> None:
        line, counted, quiet = block.line, 0, 0
        bounds.begin(block)
        floors: dict[int, int] = {}
        search, numbers = self._search(frozenset(seen.settled))
        for found_number, start, end in search(block.data):
            number = numbers[found_number]
            if number in seen.settled or not max(block.start, quiet) <= start < block.end:
                continue
            if not bounds.has_room(start, is_header=number == self._header):
                bounds.first_line = bounds.first_line or line + block.data.count(b"\n", counted, start)
                _pass_over(self._targets[number], block.offset + start, seen)
                continue
            if number == self._header and _is_ignored(block.data, start):
                quiet = _end_of_traceback(block.data, end)
                continue
            if number in self._once:
                seen.settled.add(number)
            if self._whole[number] and _is_again(block.data, number, start, seen.printed):
                for target in self._targets[number]:
                    if target.kind == FINDING:
                        seen.findings[target.name].count += 1
                continue
            around = _surroundings(block.data, start, end, floors.get(number, 0))
            bounds.add(around)
            floors[number] = end
            for target in self._targets[number]:
                if target.kind == FINDING and target.name in seen.findings and seen.findings[target.name].is_full:
                    _pass_over([target], block.offset + start, seen)
                    continue
                found = around.found(target.line)
                if found is None or (target.kind == FINDING and self.words.is_no_sign(around.line)):
                    continue
                groups, length = found
                floors[number] = max(floors[number], around.start + length)
                if target.kind == FINDING:
                    sighting = seen.findings[target.name]
                    if sighting.count < MOST_LOOKS:  # what is shown of a line is without secrets
                        groups = dict((around.cleaned(target.line).found(target.line) or ({}, 0))[0])
                    elif "detail" in groups:
                        groups = {**groups, "detail": None}
                    if sighting.is_news(groups, around.moment):
                        line, counted = line + block.data.count(b"\n", counted, start), start
                        beside = Tail.around(shown, block, start, line, self.words)
                        sighting.first = _line(around.cleaned(target.line), groups, (seen.logs, line), beside)
                    sighting.last[seen.logs] = block.offset + start
                _note(target, groups, around, seen)


def _pass_over(targets: Iterable[_Target], offset: int, seen: Sightings) -> None:
    """Note that a text of findings that were seen before stands at a place that is not looked at."""
    for target in targets:
        if target.kind == FINDING and target.name in seen.findings:
            seen.findings[target.name].last[seen.logs] = offset


class _Bounds:
    """Bounds how many known texts of a log are looked at where they stand close together."""

    def __init__(self) -> None:
        self.passed, self.first_line = 0, 0

    def begin(self, block: Block) -> None:
        """Go on with the next block."""
        self._data = block.data
        self._line, self._end, self._looks = 0, 0, 0
        self._first, self._unended = 0, 0

    def has_room(self, start: int, *, is_header: bool) -> bool:
        """Tell if a text is looked at; it is passed over, and counted, where too many were just before it."""
        if start >= self._end:
            self._line, self._looks = start, 0
            self._end = self._data.find(b"\n", start) + 1 or len(self._data)
        if is_header and start - self._first >= AHEAD_BYTES:
            self._first, self._unended = start, 0
        has_room = self._looks < MOST_IN_LINE + (start - self._line) // APART
        has_room = has_room and not (is_header and self._unended >= MOST_UNENDED)
        self._looks += has_room
        self.passed += not has_room
        return has_room

    def add(self, around: _Around) -> None:
        """Count what was looked at and took long."""
        self._unended += around.text.startswith(CUT_OFF)


def _is_ignored(data: bytes, start: int) -> bool:
    """Tell if Python says above a traceback that it goes on: of what failed in a destructor or at the very end."""
    low = data.rfind(b"\n", 0, start)
    return IGNORED.encode() in data[data.rfind(b"\n", 0, max(low, 0)) + 1 : max(low, 0)]


def _end_of_traceback(data: bytes, start: int) -> int:
    last = _UNINDENTED.search(data, start)
    return last.end() if last else len(data)


def _is_again(data: bytes, number: int, start: int, printed: set[tuple[int, bytes]]) -> bool:
    """Tell if the same process printed the same text before: nothing new can be learned then.

    Such lines are most of what NCCL prints.
    """
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
class _Around:
    """What stands around a text: before it in its line, the line, where that starts, and what lies behind that.

    below: so many lines further down stands what it says, of a traceback its exception.
    """

    text: str
    before: str
    line: str
    start: int
    behind: bytes
    below: int = 0

    @property
    def moment(self) -> str:
        """When the line was printed, if it says so."""
        return moment(self.before + self.line)

    def cleaned(self, wanted: LogLine) -> _Around:
        """Return it without secrets; what lies behind the line only if the line that is wanted looks there."""
        looked_at = self.behind if wanted.near or wanted.not_near else b""
        behind = without_secrets(looked_at.decode("utf-8", "replace")).encode()
        return replace(self, line=without_secrets(self.line), behind=behind)

    def found(self, wanted: LogLine) -> tuple[dict[str, str | None], int] | None:
        """Return the groups of the line, and how many of its bytes they need; None if it is another line.

        The groups `host` and `port` give the detail HOST:PORT.
        """
        groups: dict[str, str | None] = {"value": wanted.value} if wanted.value else {}
        length = 0
        if wanted.unless is not None and wanted.unless.search(self.line):
            return None
        if wanted.match is not None:
            match = wanted.match.search(self.line)
            if match is None:
                return None
            groups.update(match.groupdict())
            length = len(self.line[: match.end()].encode())
        if wanted.near is not None or wanted.not_near is not None:
            next_lines = self.behind.decode("utf-8", "replace")
            near = wanted.near.search(next_lines) if wanted.near else None
            if (wanted.near and near is None) or (wanted.not_near and wanted.not_near.search(next_lines)):
                return None
            groups.update(near.groupdict() if near else {})
        if host := groups.get("host"):
            groups["detail"] = f"{host}:{groups['port']}"
        if detail := groups.get("detail"):
            groups["detail"] = shortened(detail, MOST_DETAIL)
        return groups, length


def _surroundings(data: bytes, start: int, end: int, floor: int) -> _Around:
    """Return what stands around a text.

    A line also begins behind a carriage return, with which progress bars go back, and at the floor: behind the same
    text before, since the lines of two ranks may have come to stand in one. For the header of a traceback stands what
    that says.
    """
    floor = min(max(start - AROUND, floor), start)
    low = max(data.rfind(b"\n", floor, start) + 1, data.rfind(b"\r", floor, start) + 1, floor)
    high = data.find(b"\n", end, end + AROUND)
    high = high if high >= 0 else min(end + AROUND, len(data))
    before, text = (data[one:other].decode("utf-8", "replace") for one, other in ((low, start), (start, end)))
    line = before + data[start:high].decode("utf-8", "replace").rstrip("\r")
    below = 0
    if text == HEADER:
        text, below = exception_text(before, data[low : start + AHEAD_BYTES].decode("utf-8", "replace"))
        line = text
    return _Around(text=text, before=before, line=line, start=low, behind=data[low : start + NEAR], below=below)


def _line(around: _Around, groups: dict[str, str | None], order: tuple[int, int], beside: Tail) -> FirstLine:
    """Return what is kept of the first line that shows a finding; it is cleaned, and then cut."""
    whole = " ".join(around.line.split())
    at = whole.find(" ".join(around.text.split()))
    first = 0 if len(whole) <= SHOWN or len(around.before) < SHOWN_BEFORE else max(at - SHOWN_BEFORE, 0)
    first = whole.find(" ", first, max(at, first)) + 1 if first else 0
    named = next(numbers_of(groups.get("ranks") or groups.get("rank") or ""), None)
    return FirstLine(
        place=f"{beside.log}:{order[1]}",
        order=(order[0], order[1] + around.below),
        text=shortened(whole[first:], SHOWN) if at >= 0 or len(around.before) < AROUND else "",
        detail=groups.get("detail") or "",
        node=groups.get("node") or beside.words.node(around.before),
        rank=beside.words.rank(around.before) if named is None else named,
        moment=around.moment,
        around=beside,
    )


def _note(target: _Target, groups: dict[str, str | None], around: _Around, seen: Sightings) -> None:
    """Add what a line says to what was seen. What stands in front of it names who printed it."""
    if target.kind == MISSING:
        seen.refuted.add(target.name)
        return
    words, node = seen.words, groups.get("node") or seen.words.node(around.before)
    if node and len(seen.hosts) < MOST_NAMES:
        seen.hosts.add(node)
    if target.kind == FINDING:
        seen.findings[target.name].add(node, words.rank(around.before), groups, words.level(around.line))
        if groups.get("collective"):
            seen.collective(str(groups["collective"]))
        return
    if "busbw" in groups:
        seen.rows.add(groups)
        return
    value, rank = groups.get("value") or "", groups.get("rank") or ""
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
    elif rank.isdecimal() and value.isdecimal():
        seen.reached(str(groups["group"]), int(rank[:9]), int(value[:18]))


def read_logs(logs: Iterable[tuple[str, BinaryIO]], scanner: Scanner) -> Sightings:
    """Return what several logs say together, such as one a node: name and stream of each."""
    seen = Sightings(scanner.words)
    for shown, stream in logs:
        scanner.read(stream, shown, seen)
    return seen

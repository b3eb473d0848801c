"""Searches a log for the lines that are known, all of them in one pass.

A text that each known line contains is searched for as bytes; only where one is found is the line itself looked at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from uenvtool.doctor.log import origin
from uenvtool.doctor.log.blocks import Block, blocks
from uenvtool.doctor.log.sightings import MOST_NAMES, Sighting, Sightings
from uenvtool.doctor.secrets import without_secrets
from uenvtool.knowledge.finding import Known, LogLine

BEFORE, AFTER = 600, 1_500
"""Characters of a line that are looked at before and behind the text that was found in it."""
NEAR = 4_000
SHOWN = 160
FINDING, FACT, MISSING = "finding", "fact", "missing"
_PRINTER = re.compile(rb"[\w.-]+:\d+:\d+ \[\d+\] ")
"""How NCCL begins a line: HOST:PROCESS:THREAD [GPU]."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a line says: a finding, a fact, or that a finding is none."""

    kind: str
    name: str
    line: LogLine


class Scanner:
    """Knows the lines; reads one log after the other."""

    def __init__(self, known: Known) -> None:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        targets: dict[bytes, list[_Target]] = defaultdict(list)
        for target in _targets(known):
            targets[target.line.text.encode()].append(target)
        self._targets = list(targets.values())
        self._whole = [not any(map(_looks_further, found)) for found in self._targets]
        self._once = {number for number, found in enumerate(self._targets) if all(map(_says_all_at_once, found))}
        self._settled: set[int] = set()
        self._printed: set[tuple[int, bytes]] = set()
        self._search = BytesAhoCorasick(list(targets), implementation=Implementation.DFA)

    def read(self, stream: BinaryIO, shown: str, seen: Sightings) -> None:
        """Add what a log says. shown: its name in the report. A log that cannot be read to its end is noted so."""
        try:
            for block in blocks(stream):
                self._read(block, shown, seen)
                seen.bytes += block.end - block.start
        except (OSError, EOFError) as error:
            seen.unread.append(f"{shown} is read in part: {getattr(error, 'strerror', None) or error}")

    def _read(self, block: Block, shown: str, seen: Sightings) -> None:
        line, counted = block.line, 0
        floors: dict[int, int] = {}
        for number, start, end in self._search.find_matches_as_indexes(block.data, overlapping=True):
            if number in self._settled or not block.start <= start < block.end:
                continue
            if number in self._once:
                self._settled.add(number)
            if self._whole[number] and self._is_again(block.data, number, start):
                _count_again(self._targets[number], seen)
                continue
            around = _surroundings(block.data, start, end, floors.get(number, 0))
            floors[number] = end
            for target in self._targets[number]:
                found = _found(target.line, around)
                if found is None:
                    continue
                floors[number] = max(floors[number], around.start + found.length)
                if target.kind == FINDING and target.name not in seen.findings:
                    line, counted = line + block.data.count(b"\n", counted, start), start
                    text = without_secrets(" ".join(around.line.split()))[:SHOWN]
                    seen.findings[target.name] = Sighting(place=shown, line=line, text=text)
                _note(target, found.groups, around.before, seen)

    def _is_again(self, data: bytes, number: int, start: int) -> bool:
        """Tell if the same process printed the same text before: nothing new can be learned then.

        Such lines are most of what NCCL prints.
        """
        printer = _PRINTER.match(data, data.rfind(b"\n", max(start - BEFORE, 0), start) + 1, start)
        if printer is None:
            return False
        before = (number, printer[0]) in self._printed
        if not before and len(self._printed) < MOST_NAMES:
            self._printed.add((number, printer[0]))
        return before


def _looks_further(target: _Target) -> bool:
    """Tell if more than the text decides if a line is the one."""
    line = target.line
    return line.match is not None or line.near is not None or line.not_near is not None


def _says_all_at_once(target: _Target) -> bool:
    """Tell if a second line can add nothing, whoever prints it: a fact that the text alone gives."""
    return target.kind == FACT and bool(target.line.value) and not _looks_further(target)


def _count_again(targets: Iterable[_Target], seen: Sightings) -> None:
    for target in targets:
        if target.kind == FINDING:
            seen.findings[target.name].count += 1


def _targets(known: Known) -> Iterator[_Target]:
    for fact in known.facts.values():
        yield from (_Target(FACT, fact.name, line) for line in fact.log)
    for finding in known.findings.values():
        yield from (_Target(FINDING, finding.id, line) for line in finding.log)
        yield from (_Target(MISSING, finding.id, line) for line in finding.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What stands around a text: before it in its line, the line, where that starts, and what lies behind that."""

    before: str
    line: str
    start: int
    behind: bytes


@dataclass(frozen=True, slots=True)
class _Found:
    """What a line gives, and how much of it was looked at for that, in bytes."""

    groups: dict[str, str | None]
    length: int = 0


def _surroundings(data: bytes, start: int, end: int, floor: int) -> _Around:
    """What stands around a text.

    A line also begins behind a carriage return, with which progress bars go back, and at the floor: behind the same
    text before, since the lines of two ranks may have come to stand in one.
    """
    floor = min(max(start - BEFORE, floor), start)
    low = max(data.rfind(b"\n", floor, start) + 1, data.rfind(b"\r", floor, start) + 1, floor)
    high = data.find(b"\n", end, end + AFTER)
    high = high if high >= 0 else min(end + AFTER, len(data))
    before = data[low:start].decode("utf-8", "replace")
    line = before + data[start:high].decode("utf-8", "replace").rstrip("\r")
    return _Around(before=before, line=line, start=low, behind=data[low : start + NEAR])


def _found(line: LogLine, around: _Around) -> _Found | None:
    """What a line gives; None if it is another one that contains the same text."""
    groups: dict[str, str | None] = {"value": line.value} if line.value else {}
    length = 0
    if line.match is not None:
        match = line.match.search(around.line)
        if match is None:
            return None
        groups.update(match.groupdict())
        length = len(around.line[: match.end()].encode())
    if line.near is not None or line.not_near is not None:
        next_lines = around.behind.decode("utf-8", "replace")
        near = line.near.search(next_lines) if line.near else None
        if (line.near and near is None) or (line.not_near and line.not_near.search(next_lines)):
            return None
        groups.update(near.groupdict() if near else {})
    return _Found(groups, length)


def _note(target: _Target, groups: dict[str, str | None], before: str, seen: Sightings) -> None:
    """Add what a line says to what was seen. before: what stands in front of it, which names who printed it."""
    if target.kind == MISSING:
        seen.refuted.add(target.name)
        return
    node = origin.node(before)
    if node and len(seen.hosts) < MOST_NAMES:
        seen.hosts.add(node)
    if target.kind == FINDING:
        seen.findings[target.name].add(node, origin.rank(before), groups)
        if groups.get("collective"):
            seen.collective(str(groups["collective"]))
        return
    value, rank = groups.get("value") or "", groups.get("rank") or ""
    if groups.get("group") is None:
        seen.fact(target.name, value, node)
    elif rank.isdecimal() and value.isdecimal():
        seen.progress.add(str(groups["group"]), int(rank[:9]), int(value[:18]))


def read_logs(logs: Iterable[tuple[str, BinaryIO]], known: Known) -> Sightings:
    """What several logs say together, such as one a node: name and stream of each."""
    scanner, seen = Scanner(known), Sightings()
    for shown, stream in logs:
        scanner.read(stream, shown, seen)
    return seen

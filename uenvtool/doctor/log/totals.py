"""Comparison of the end of a log with the number of epochs or steps that it states, and with lines that it repeats."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

_UNIT = r"(?P<unit>epoch|step|iter)(?:ation)?"
COUNTER = re.compile(
    rf"(?i)\b{_UNIT}(?:_num|_count)?[\"']?[\s:=#\[(|]{{1,12}}(?P<part>\d{{1,9}})(?![.\d])"
    r"(?:\s*(?:/|\bof\b)\s*(?P<total>\d{1,9}))?"
)
"""Matches an epoch or a step, such as `epoch: 3` or `Step 3/100`."""
_NAMES = r"(?:(?:num|max|total|n|nb|train|training|optimization|number of)[_ -]?)"
_STATED = re.compile(
    rf"(?i)(?<![\w-])(?:--{_NAMES}*|{_NAMES}+){_UNIT}s[\"']?(?:\s?[:=]\s?|[ .]{{1,60}})(?P<total>\d{{1,9}})(?![\w.])"
)
"""Matches a setting, such as `max_steps: 200` or `--num-epochs 3`."""
_PLAIN = re.compile(rf"(?i)(?:^|[(,{{\[|.:]\s?[\"']?){_UNIT}s[\"']?\s?[:=]\s?(?P<total>\d{{1,9}})(?![\w.])")
"""Matches a setting without a prefix, such as `Namespace(epochs=90`. In a progress line, it may be a counter."""
_ANNOUNCED = re.compile(rf"(?i)\b(?:train|run)\w*(?: \w+){{0,3}} (?P<total>\d{{1,9}}) {_UNIT}s\b")
"""Matches an announcement, such as `Training for 10 epochs`."""
_UNITS = ("step", "iter", "epoch")
MIN_ITEMS, MIN_LINES = 3, 3
"""The number of earlier items, such as files, and of lines per item from which the form of an item is known."""
MOST_OFTEN = 0.8
"""The share of items after which the same line must follow. Two processes may print into one log."""


def is_total_reached(lines: Iterable[tuple[str, bool]]) -> bool | None:
    """Return whether a run reached the number of epochs or steps that its log states, or None if this is unknown.

    The last line with a counter decides. Its first unit in the order step, iteration, epoch is the one that counts.

    lines: the lines of the log, and whether each is a progress line.
    """
    parts: dict[str, list[int]] = defaultdict(list)
    totals: dict[str, set[int]] = defaultdict(set)
    last: list[str] = []
    for line, is_progress in lines:
        for unit, total in _totals(line, is_progress=is_progress):
            totals[unit].add(total)
        if is_progress and (counters := [(match["unit"].lower(), match) for match in COUNTER.finditer(line)]):
            last = [unit for unit in _UNITS if unit in dict(counters)]
            for unit, match in counters:
                if not parts[unit] or parts[unit][-1] != int(match["part"]):
                    parts[unit].append(int(match["part"]))
    return _is_reached(parts[last[0]], totals[last[0]]) if last else None


def _totals(line: str, *, is_progress: bool) -> Iterator[tuple[str, int]]:
    for pattern in (COUNTER, _STATED) if is_progress else (_STATED, _PLAIN, _ANNOUNCED):
        for match in pattern.finditer(line):
            if match["total"]:
                yield match["unit"].lower(), int(match["total"])


def _is_reached(parts: list[int], totals: set[int]) -> bool | None:
    """Return whether the last counter is at the total, or None if this depends on the first number, 0 or 1."""
    first, part = parts[0], parts[-1]
    interval = max(part - parts[-2], 1) if len(parts) > 1 else 1
    total = min((total for total in totals if total >= part), default=part - 1)
    if total < part:
        return None
    if part == total or (not first and part + interval >= total):
        return True
    is_from_one = 0 < first <= interval
    return False if part + interval * (2 - is_from_one) <= total else None


def is_in_next_item(kinds: Sequence[str], end: int) -> bool:
    """Return whether a log stops in another item after the end of an item, such as "Closing FILE [done]".

    The same line must follow each earlier end, and the lines after this end must be others that the log repeats.

    kinds: the lines of the log without their numbers.
    """
    following = {kinds[at + 1] for at in range(end) if kinds[at] == kinds[end]}
    rest = kinds[end + 1 :]
    is_repeated = bool(rest) and all(kinds[:end].count(kind) >= MIN_ITEMS for kind in (kinds[end], *rest))
    return is_repeated and len(following) == 1 and following.isdisjoint(rest)


def ends_cycle(kinds: Sequence[str]) -> bool:
    """Return whether the last line is the end of an item of several lines, after which the log began another before.

    kinds: the lines of the log without their numbers.
    """
    earlier = [at for at, kind in enumerate(kinds[:-1]) if kind == kinds[-1]]
    if len(earlier) < MIN_ITEMS or len(kinds) - 1 - earlier[-1] < MIN_LINES:
        return False
    begin, count = Counter(kinds[at + 1] for at in earlier).most_common(1)[0]
    return count >= MOST_OFTEN * len(earlier) and kinds.index(begin) < earlier[0]

"""Classifier for log lines that determines who printed a line, its level, and whether it describes a failure.

The patterns of messages are in `knowledge/findings/words.yaml`. The schema of findings describes each list of patterns.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from uenvtool.knowledge.pattern import Pattern

IGNORED = re.compile(r"Exception ignored in|--- Logging error ---")
"""Matches Python's messages about exceptions that it ignores, for example in a destructor or in a call of a logger."""
ERROR, WARNING, INFORMATION = range(3)
LEVEL_WITHIN = 80
"""The number of characters at the start of a line in which loggers print the level."""
LONG = 20
"""The number of progress lines that prove that a run continued after a problem that usually ends a run."""
MANY = 50
"""The number of lines that prove that a shell continued. A line that reports completion counts as this many steps."""
MOST_REMEMBERED = 1 << 13
"""The number of lines whose classification is kept, more than the end of a log usually has."""
PLAIN = 2
"""The weight of a line that states the cause of a failure by itself."""
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T_ ](?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"  # ISO, used by Slurm, torchrun, logging
    r"|\b[EWIF](?P<date>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d\.\d{1,9})"  # torch: month, day, time
)


_COUNTS = re.compile(
    r"(?i)(?P<score>\b(?:best\b.{0,60}?|acc\w*|correct\w*|passed|solved|scored?|success\w*|matched)\W{0,4})?"
    r"(?<![\d/.,-])(?<!\d:)(?P<part>\d{1,12})\s*(?:/|\bof\b|\bout of\b)\s*(?P<total>\d{1,12})"
    r"(?![\d/.:-]|\W{0,3}(?:passed|correct|ok\b|solved|success|[GM]i?B\b))"
)
"""Matches a part and the total, such as 55/100 or 55 of 100, but not a date. A score, such as an accuracy, is named."""
_PYTHON_WARNING = re.compile(r"\.py:\d+: \w*Warning: ")
"""Matches a warning of Python, which is followed by the line of code that caused it."""
_PERCENTS = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3})?) ?%\|")


class LineClassifier:
    """A classifier for log lines, based on lists of patterns."""

    def __init__(self, lists: Mapping[str, Pattern]) -> None:
        self._lists = lists
        self._label = Pattern(rf"^\s*(?:(?:{lists['label'].text})\s*){{1,3}}")
        # the end of a log is searched once for each finding
        self.steps = functools.lru_cache(MOST_REMEMBERED)(self._steps)
        self.shows_failure = functools.lru_cache(MOST_REMEMBERED)(self._shows_failure)

    def has(self, line: str, *lists: str) -> bool:
        return any(self._lists[name].search(line) for name in lists)

    def level(self, line: str) -> int:
        """Return the level that a line states, WARNING or INFORMATION, or else ERROR."""
        return INFORMATION if self.has(line[:LEVEL_WITHIN], "information") else WARNING * self.has(line, "warning")

    def is_no_sign(self, line: str) -> bool:
        """Return whether a line is source code that contains a message, or a remark about another program's message."""
        return self.has(self.without_label(line), "code") or self.has(line, "aside")

    def without_label(self, line: str) -> str:
        """Return a line without the labels that its printer put at the start, such as a rank."""
        label = self._label.search(line)
        return line[label.end() :] if label else line

    def node(self, before: str) -> str:
        """Return the last node that the text before a match names, or an empty string."""
        return self._last("node", before)

    def rank(self, before: str) -> int | None:
        """Return the last rank that the text before a match names, or None."""
        number = self._last("rank", before)
        return int(number) if number else None

    def _last(self, name: str, text: str) -> str:
        matches = self._lists[name].finditer(text) if text else []
        return next(filter(None, matches[-1].groups())) if matches else ""

    def catches(self, line: str) -> bool:
        """Return whether a line states that the program caught the error that follows it."""
        return self.has(line, "caught") and self.has(line, "error", "tells")

    def _shows_failure(self, line: str) -> bool:
        return self.has(line, "error") and not self.has(line, "harmless", "caught") and not self.is_no_sign(line)

    def states_problem(self, line: str) -> bool:
        """Return whether a line states a problem, for example that a value is missing."""
        return self.has(line, "error", "tells") and not (self.steps(line) or self.has(line, "harmless", "caught"))

    def describes_failure(self, line: str) -> bool:
        """Return whether a line gives details of a failure, rather than only stating that there was a failure."""
        return self.has(line, "error", "tells") and not (
            self.has(line, "harmless", "empty", "follows", "caught") or self.is_no_sign(line)
        )

    def _steps(self, line: str) -> int:
        """Return the number of progress lines that a line counts as."""
        steps = MANY if self.has(line, "done") else int(self.has(line, "progress"))
        return 0 if steps and self.shows_failure(line) else steps

    def is_open(self, line: str) -> bool:
        """Return whether a line shows work that has not ended, such as step 5 of 100 or a compilation."""
        if self.has(line, "starts"):
            return True
        is_partial = self._is_partial(line)
        is_step = self.has(line, "progress") and not self.has(line, "request", "uncounted")
        ends = ("closes",) if is_partial else ("closes", "done", "end", "between")
        if self.shows_failure(line) or self.has(line, *ends):
            return False
        return (is_step or self.has(line, "busy")) and is_partial is not False

    def is_partial_step(self, line: str, most: float = 1) -> bool:
        """Return whether a line is a step of a known total, such as 5 of 100, before the given share of the total."""
        return self.has(line, "progress") and self.is_open(line) and bool(self._is_partial(line, most))

    def _is_partial(self, line: str, most: float = 1) -> bool | None:
        """Return whether a line states a part that is less than a share of a total, or None if it states no total."""
        shares = [float(match[1]) / 100 for match in _PERCENTS.finditer(line)]
        for match in _COUNTS.finditer(line):
            if not match["score"]:
                shares.append(int(match["part"]) / max(int(match["total"]), 1))
        return min(shares) < most if shares else None

    def is_between_steps(self, line: str, above: str) -> bool:
        """Return whether a line can follow a step while the run continues: a warning, its code, or the end of an epoch.

        above: the line above.
        """
        is_warning = self.has(line, "warning") or self.is_no_sign(line) or bool(_PYTHON_WARNING.search(above))
        return self.has(line, "between") or (is_warning and not self.has(line, "closes", "done", "end"))

    def weight(self, line: str) -> int:
        """Return how well a line explains a failure; a line that is only a consequence of another line is negative."""
        return PLAIN * self.has(line, "cause") + self.has(line, "error") - 3 * self.has(line, "follows")

    def frame(self, line: str) -> bool | None:
        """Return whether a stack frame is in the program's own code, or None if the line is not a stack frame."""
        match = self._lists["call"].search(line)
        return not self.has("".join(filter(None, match.groups())), "system_call") if match else None


def moment(line: str) -> str:
    """Return the time at which a line was printed in a sortable form, or an empty string."""
    match = _MOMENT.search(line)
    if match is None:
        return ""
    day, time = match["day"] or match["date"].zfill(4), match["time"] or match["clock"]
    return f"{day} {time.replace(',', '.').ljust(18, '0')}"

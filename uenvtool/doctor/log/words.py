"""What a line of a log tells, whatever the run: who printed it, of which level it is, if it speaks of a failure.

The words for it, those of foreign programs, stand in `knowledge/findings/words.yaml`; the schema of findings describes
each list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from uenvtool.knowledge.pattern import Pattern

IGNORED = "Exception ignored in"
"""How Python begins what it says of a failure that it passes over, as in a destructor."""
ERROR, WARNING, INFORMATION = range(3)
"""The levels of lines."""
LEVEL_WITHIN = 80
"""In so many characters a logger says of which level a line is."""
MANY = 50
"""So many lines of progress, or one that says that all is done, say that a run went on."""
PLAIN = 2
"""So much weight has a line that states a failure by itself."""
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T_ ](?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"  # ISO, as of Slurm, torchrun, logging
    r"|\b[EWIF](?P<date>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d\.\d{1,9})"  # torch: month, day, time
)


class Words:
    """Asks of a line what it tells."""

    def __init__(self, lists: Mapping[str, Pattern]) -> None:
        self._lists = lists
        self._label = Pattern(rf"^\s*(?:(?:{lists['label'].text})\s*){{1,3}}")

    def has(self, line: str, *lists: str) -> bool:
        """Tell if words of one of these lists stand in a line."""
        return any(self._lists[name].search(line) for name in lists)

    def level(self, line: str) -> int:
        """Return what a line says of itself: that it is but a WARNING, or INFORMATION; else it may be an ERROR."""
        return INFORMATION if self.has(line[:LEVEL_WITHIN], "information") else WARNING * self.has(line, "warning")

    def is_no_sign(self, line: str) -> bool:
        """Tell if a line only shows a statement that would print what it holds, or is the remark of a helper."""
        return self.has(self.without_label(line), "code") or self.has(line, "aside")

    def without_label(self, line: str) -> str:
        """Return a line without what stands in front of it to say who printed it."""
        label = self._label.search(line)
        return line[label.end() :] if label else line

    def node(self, before: str) -> str:
        """Return the node that is named last in what stands before a text; empty if none is."""
        return self._last("node", before)

    def rank(self, before: str) -> int | None:
        """Return the rank that is named last in what stands before a text; None if none is."""
        found = self._last("rank", before)
        return int(found) if found else None

    def _last(self, name: str, text: str) -> str:
        matches = self._lists[name].finditer(text) if text else []
        return next(filter(None, matches[-1].groups())) if matches else ""

    def speaks(self, line: str) -> bool:
        """Tell if a line speaks of a failure."""
        return self.has(line, "error") and not self.has(line, "harmless") and not self.is_no_sign(line)

    def tells(self, line: str) -> bool:
        """Tell if a line says something of a failure, beyond that one was."""
        return self.has(line, "error", "tells") and not (
            self.has(line, "harmless", "empty", "follows") or self.is_no_sign(line)
        )

    def steps(self, line: str) -> int:
        """Return for how many lines of progress a line counts."""
        steps = MANY if self.has(line, "done") else int(self.has(line, "progress"))
        return 0 if steps and self.speaks(line) else steps

    def weight(self, line: str) -> int:
        """Return how much a line says of why something failed; one that only says that it did follows from another."""
        return PLAIN * self.has(line, "cause") + self.has(line, "error") - 3 * self.has(line, "follows")

    def frame(self, line: str) -> bool | None:
        """Tell if a line of a trace of calls is one of the program's own; None for any other line."""
        found = self._lists["call"].search(line)
        return not self.has("".join(filter(None, found.groups())), "system_call") if found else None


def moment(line: str) -> str:
    """Return when a line was printed, in a form that sorts; empty if it does not say so."""
    found = _MOMENT.search(line)
    if found is None:
        return ""
    day, time = found["day"] or found["date"].zfill(4), found["time"] or found["clock"]
    return f"{day} {time.replace(',', '.').ljust(18, '0')}"

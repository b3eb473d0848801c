"""Parser for Python tracebacks that returns the first exception and its location, also from lines with labels."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

HEADER = "Traceback (most recent call last)"
"""The first line of a traceback in all versions of Python 3 (Lib/traceback.py), Rich and IPython."""
CUT_OFF = "a traceback that is cut off"
FINALLY = "; finally "
"""Separates the first and the last exception of a chain in a summary."""
MOST_LINES = 500
LABEL_LINES = 20
"""The number of lines after the header in which the parser searches for the header's label."""
MOST_BETWEEN = 40
"""The maximum number of lines of a long exception message before the line that introduces the next exception."""
_FRAME = re.compile(r'^\s+(?:\|\s+)?File "(?P<file>[^"]{1,300})", line (?P<line>\d+)(?:, in (?P<name>\S+))?')
_INDENTED = re.compile(r'( {3,})File "')
_RICH = re.compile(r"^(?:│ +|File )(?P<file>\S+\.py):(?P<line>\d+)(?:,? in (?P<name>[^\s(]+))?")
"""Matches a frame in a traceback of Rich or IPython."""
_RAISED = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*(?:\(\w+\))?"
    r"|\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Expired|NotFound|Unsupported|Failed|Iteration)(?:\(\w+\))?)"
    r"(?:: ?(?P<message>.*))?$"
)
_NAMED = re.compile(r"^(?P<type>[A-Z]\w*)(?:: ?(?P<message>.*))?$")
"""Matches an exception of the script itself, which Python prints without the name of its module."""
_VALIDATION = re.compile(r"\d validation errors? for \S+$")
"""Matches the first line of an exception of pydantic. The following lines name a field and its problem."""
_FIELD = re.compile(r"[\w.]+$")
_AGAIN = re.compile(
    r"^\w+: Caught \w+ in |^ray\.exceptions\.RayTaskError|^(?:\w+\.)*(?:PapermillExecutionError|CellExecutionError): "
    r"|: CheckpointException ranks:"
)
"""Matches the line before the original of an exception that torch, Ray or papermill raises again.

In torch, these are torch/_utils.py and torch/distributed/checkpoint/api.py.
"""
CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_LIBRARY = re.compile(
    r"\.pyx$|/(?:site|dist)-packages/|/lib(?:64)?/python3|^<frozen |^/usr/lib/python"
    r"|/bin/(?:torchrun|accelerate|papermill|jupyter(?:-\w+)?)$"
)
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """An exception with its type, message, and location (file, line and function)."""

    type: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        text = f"{self.type}: {self.message}" if self.message else self.type
        return f"{text} at {self.place}" if self.place else text


def exception_text(before: str, text: str) -> tuple[str, int]:
    """Return the summary of a traceback in one line, and the number of lines from the header to its last exception.

    The summary of chained exceptions names the first and the last exception. If the text ends before an exception, the
    summary names the last frame with its code.

    before: the text before the header in its line.
    text: the log from the header's line.
    """
    first, last, place, below = None, None, "", 0
    lines = enumerate(_without_labels(before, text), 1)
    for raised, at, number in _exceptions(lines):
        first, last, place, below = first or raised, raised or last, at, number
    if first is None or last is None:
        return (f"{CUT_OFF} after {place}" if place else CUT_OFF), below
    is_same = (first.type, first.message) == (last.type, last.message)
    return str(first) if is_same else f"{first}{FINALLY}{last}", below


def _exceptions(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[Raised | None, str, int]]:
    """Yield the exceptions of a chain with their locations and line numbers, and None for an incomplete traceback.

    The location is in a library only if no other frame exists.
    """
    frame, program_frame, is_open, between, number = "", "", True, 0, 0
    codes: dict[str, str] = {}
    for number, line in lines:
        between = 0 if is_open else between + 1
        if match := _FRAME.match(line) or _RICH.match(line):
            frame = f"{match['file'].rpartition('/')[2]}:{match['line']}"
            frame += f" in {match['name']}" if match["name"] not in (None, "<module>") else ""
            program_frame = program_frame if _LIBRARY.search(match["file"]) else frame
        elif frame and is_open and line.startswith("    ") and (code := line.strip()).strip("^~ "):
            codes[frame] = code
        elif line.startswith(CHAINED):
            frame, program_frame, is_open = "", "", True
        elif between > MOST_BETWEEN or (HEADER in line and not is_open):
            return
        elif is_open and (raised := _RAISED.match(line) or _raised_by(codes.get(frame, ""), line)):
            message, has_colon = raised["message"] or "", raised["message"] is not None
            if (has_colon and not message) or message.endswith(":") or _VALIDATION.search(message):
                message = f"{message} {_next_lines(lines)}".strip()
            if _AGAIN.search(f"{raised['type']}: {message}"):
                continue
            place = program_frame or frame
            stated = f"{place}: {codes[place]}" if not message and place in codes else place
            yield Raised(type=raised["type"], message=message, place=stated), place, number
            is_open = False
    if is_open:
        place = program_frame or frame
        yield None, f"{place}: {codes[place]}" if place in codes else place, number


def _raised_by(code: str, line: str) -> re.Match[str] | None:
    """Return the match with an exception that the code of a frame raises by name, such as `raise Stop("late")`."""
    named = _NAMED.match(line)
    return named if named and re.search(rf"\braise {named['type']}\b", code) else None


def _next_lines(lines: Iterator[tuple[int, str]]) -> str:
    """Return the next line, and the line after it if the next line only names a field of a pydantic model."""
    line = next(lines, (0, ""))[1]
    return f"{line}: {next(lines, (0, ''))[1].strip()}" if _FIELD.match(line) else line.strip()


def _without_labels(before: str, text: str) -> Iterator[str]:
    """Yield the lines of a traceback without their label, and an empty line for each line with another label.

    A label is a rank, a node, a worker, or a time, which may differ per line. Some loggers label only the header, and
    torchrun indents all lines of a traceback that it reports.
    """
    rest = io.StringIO(text)
    next(rest, "")
    first = list(itertools.islice(rest, LABEL_LINES))
    lines = (line.rstrip("\r\n") for line in itertools.chain(first, itertools.islice(rest, MOST_LINES)))
    size, form = len(before), _without_time(before)
    normalised = _without_time if form != before else str  # a label without a time is the same in each line
    if not before or not any(normalised(line[: size + 2]).startswith(f"{form}  ") for line in first):
        margin = next((" " * (len(frame[1]) - 2) for frame in map(_INDENTED.match, first[:1]) if frame), "")
        yield from (line.removeprefix(margin) for line in lines)
        return
    for line in lines:
        yield line[size:] if line.startswith(before) or normalised(line[:size]) == form else ""


def _without_time(label: str) -> str:
    return _CLOCK.sub("", label)

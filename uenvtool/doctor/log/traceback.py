"""What a Python traceback says: the exception that came first, and where; of lines with a label in front, too."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

HEADER = "Traceback (most recent call last)"
"""Python's own words (Lib/traceback.py, all of 3.x); Rich and IPython print them too."""
CUT_OFF = "a traceback that is cut off"
MOST_LINES = 500
LOOKED_AT = 20
"""Lines below a header that show if a label is repeated."""
MOST_BETWEEN = 40
"""Lines between an exception, whose message may be long, and the words that another one follows from it."""
_FRAME = re.compile(r'^\s+(?:\|\s+)?File "(?P<file>[^"]{1,300})", line (?P<line>\d+)(?:, in (?P<name>\S+))?')
_RICH = re.compile(r"^│ +(?P<file>\S+\.py):(?P<line>\d+) in (?P<name>\S+)")
_RAISED = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*(?:\(\w+\))?"
    r"|\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Expired|NotFound|Unsupported|Failed)(?:\(\w+\))?)"
    r"(?:: ?(?P<message>.*))?$"
)
_AGAIN = re.compile(r"^\w+: Caught \w+ in |^ray\.exceptions\.RayTaskError")
"""How a worker's exception is raised anew, before its own text: torch's data loaders (torch/_utils.py), Ray's tasks."""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python3|^<frozen |^/usr/lib/python|/bin/(?:torchrun|accelerate)$"
)
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """An exception: its type and message, and the file, line and function that it came from."""

    type: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        """Return it on one line."""
        text = f"{self.type}: {self.message}" if self.message else self.type
        return f"{text} at {self.place}" if self.place else text


def exception_text(before: str, text: str) -> tuple[str, int]:
    """Return what a traceback says in a line, and how many lines below the header its last exception stands.

    before: what stands in front of its header. text: from the header's line on. Of exceptions that follow from each
    other the first and the last are named. Where the text ends before an exception it is the last frame, with its code.
    """
    words = before.split()
    named = words[-1] if words and _RAISED.match(words[-1]) else ""
    first, last, place, below = None, None, "", 0
    is_chain = any(words in text for words in _CHAINED)
    lines = enumerate(_own_lines(before, text), 1)
    for raised, at, number in _exceptions(lines, named):
        first, last, place, below = first or raised, raised or last, at, number
        if first and not is_chain:
            break
    if first is None or last is None:
        return (f"{CUT_OFF} behind {place}" if place else CUT_OFF), below
    is_one = (first.type, first.message) == (last.type, last.message)
    return str(first) if is_one else f"{first}; in the end {last}", below


def _exceptions(lines: Iterator[tuple[int, str]], named: str) -> Iterator[tuple[Raised | None, str, int]]:
    """Yield the exceptions of a chain, each with where it came from, and the number of its line.

    Where the lines end before one, it is the place alone.

    named: the type that IPython writes in front of the header. A frame of a library counts where no other one is.
    """
    frame, own, is_open, between, number = "", "", True, 0, 0
    codes: dict[str, str] = {}
    for number, line in lines:
        between = 0 if is_open else between + 1
        if found := _FRAME.match(line) or _RICH.match(line):
            frame = f"{found['file'].rpartition('/')[2]}:{found['line']}"
            frame += f" in {found['name']}" if found["name"] not in (None, "<module>") else ""
            own = own if _LIBRARY.search(found["file"]) else frame
        elif frame and is_open and line.startswith("    ") and (code := line.strip()).strip("^~ "):
            codes[frame] = code
        elif line.startswith(_CHAINED):
            frame, own, is_open = "", "", True
        elif between > MOST_BETWEEN or (HEADER in line and not is_open):
            return
        elif is_open and (raised := _RAISED.match(line)) and raised["type"] == (named or raised["type"]):
            message = raised["message"] or ""
            if not message or message.endswith(":"):
                message = f"{message} {next(lines, (0, ''))[1].strip()}".strip()
            if _AGAIN.search(f"{raised['type']}: {message}"):
                continue
            place = own or frame
            stated = f"{place}: {codes[place]}" if not message and place in codes else place
            yield Raised(type=raised["type"], message=message, place=stated), place, number
            is_open = False
    if is_open:
        place = own or frame
        yield None, f"{place}: {codes[place]}" if place in codes else place, number


def _own_lines(before: str, text: str) -> Iterator[str]:
    """Yield the lines of a traceback without the label in front of them; of those that others printed nothing is left.

    A label is a rank, a node, a worker, or the time, which differs from line to line. A logger writes its own in front
    of the header alone.
    """
    rest = io.StringIO(text)
    next(rest, "")
    first = list(itertools.islice(rest, LOOKED_AT))
    lines = (line.rstrip("\r\n") for line in itertools.chain(first, itertools.islice(rest, MOST_LINES)))
    size, form = len(before), _form(before)
    of = _form if form != before else str  # a label without a time is the same in each line
    if not before or not any(of(line[: size + 2]).startswith(f"{form}  ") for line in first):
        yield from lines
        return
    for line in lines:
        yield line[size:] if line.startswith(before) or of(line[:size]) == form else ""


def _form(label: str) -> str:
    """Return a label as all lines of one printer have it: without the time of day."""
    return _CLOCK.sub("", label)

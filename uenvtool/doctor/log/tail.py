"""Looks at the end of a log: for a line that speaks of a failure, since silence is no good news, and for progress."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from uenvtool.core.value import value_class
from uenvtool.doctor.log.blocks import Block
from uenvtool.doctor.log.origin import is_code, is_of_shell
from uenvtool.doctor.secrets import without_secrets

IGNORED = "Exception ignored in"
"""How Python begins what it says of a failure that it passes over, as in a destructor."""
TAIL_BYTES, NEAR_BYTES = 1 << 16, 1 << 12
ENOUGH, MANY = 5, 50
"""So many lines of progress say that a run went on, and that what was known to break it did not."""
PLAIN = 2
"""So much weight has a line that states a failure by itself."""
LAST_LINES = 4
MOST_QUOTES = 4
MOST_OF = 0.6
"""A line is quoted where so much of it is."""
SHOWN = 300
_VARIES = re.compile(r"0x[\da-f]+|[\da-f]{8,}|\d+|\[[^\]]*\]|\s+")
_SPEAKS = re.compile(
    r"\b(?:(?i:error|failed|failure|fatal|abort(?:ed|ing)?|unable to|could(?: not|n't)|cannot|can't|denied|refused|"
    r"not enough|timed out|crashed|broken pipe|problem when|interrupted|core dumped|is dead|killed|"
    r"terminated (?:by|with|abnormally|unexpectedly)|"
    r"command not found|no such file|not initialized|mutually exclusive)|\w*E(?:rror|RROR))\b(?!_)|\w_ERROR_[A-Z]"
)
_HARMLESS = re.compile(
    r"(?i)^[\W_]*(?:error|failed|failure)[\W_]*$|"
    r"\b(?:no|not be|0|without|zero|any|if|when|on) (?:\w+ )?(?:error|failure|failed|killed)|"
    r"error\w*['\"]?\s*[=:]\s*[\d.]|exit code 0\b|NVML: Failed to get|couldn't chdir to|\[W[\d ]|gds_\w+\.c|"
    r"\bW\d{4} |\bW tensorflow|unable to register \w+ factory|could not estimate the number|not a git repository|"
    r"dependency resolver|rm: cannot remove|cannot create directory .*file exists|terminal process group|stty: |locale|"
    r"fall(?:ing|s)? ?back|fallback|skipp|not installed|couldn't infer|"
    r"warn|info|debug|ignor|retry|deprecat|error_file|fail\w*[\w ]{0,40}['\"]?: *(?:0\b|none|<)|"
    r"error (?:\w+ ){0,2}(?:norm|rate|estimat\w+|bounds?|toleran\w+|bars?|correction|metrics?|control|fails)\b|"
    r"failures? *[=:] *\d|"
    r"(?:norm|abs\w*|rel\w*|max\w*|average|avg|mean|min\w*|std|standard|rms\w*|final|l2|numerical|training|validation|"
    r"test|prediction|truncation|estimated)[ _](?:of )?(?:the )?errors?\b|errors?\b[\W\d]*[-+]?\d+\.?\d*e[-+]\d|"
    r"internal process shutdown"
)
_SAYS_WHY = re.compile(
    r"(?i)(?:error|failed|failure|fatal|exception|warn|denied|cannot|can't|could(?: not|n't)|unable to)\b[^:]{0,160}: "
    r"?(?![\d.]+$)\S+ +\S+|_ERROR_[A-Z_]+|permission denied|no such file|not found|not permitted|no space left|quota|"
    r"connection (?:refused|reset|timed out)|out of memory|can(?:not|'t) resolve|invalid argument|not supported|"
    r"(?:not|n't|cannot|unable to|failed to) (?:be )?(?:find|found|open|read|write|load|create|connect|allocat|mount)"
)
_WELL = re.compile(r"(?i)\bsuccess?ful")
_STATES = re.compile(
    r"(?i)error|fail|fatal|abort|denied|refused|crash|dumped|killed|terminated|unable to|not found|no such|dead"
)
"""Words of a line that states a failure, beside what a program says that it cannot do."""
_FOLLOWS = re.compile(
    r"(?i)abort\w*(?:\(| with| the | \(core)|exited (?:with|on)|exit(?:s|ed)? .{0,20}code|\brc ?= ?-?\d|error stack:|"
    r"terminat(?:ed|ing)\b|cancelled at|core dumped|Traceback|closing signal|ChildFailed|mpirun (?:noticed|detected)|"
    r"failed \(exitcode|\bsignal \d+|exceptions? in worker|see (?:the )?(?:above|below|full)|task_init|plugin stack"
)
"""What is said of a failure behind it, by those that started the program or waited for it."""
_TELLS = re.compile(
    r"(?i)\b(?:exceptions?|panic|fatal|killing|mismatch\w*|invalid|missing|unknown|undefined|unexpected\w*|unrecognized|"
    r"expired|exceed\w*|incompatible|unsupported|not (?:found|supported|available|permitted|compiled|enough|match)|"
    r"too (?:old|new|many|large|small|long)|only has|out of \w+|no (?:\w+ ){1,3}(?:found|available|left|device)|busy|"
    r"(?:did|does|was|is|has)(?:n't| not)|failing at|refus\w+|reject\w+|overflow|lost|unreachable|stale|corrupt\w*)\b|"
    r"\berrno\b|\b(?:ERROR|FATAL)\b"
)
"""Further words of lines that tell something of a failure, where a log shows one."""
_FRAME = re.compile(
    r"^(?:\[[^\]]+\] )?(?:\[ *\d+\] +(?P<file>\S*?)\((?P<function>\w+)|#\d+ +(?:0x\w+ in )?(?P<gdb>\w+)|"
    r" *\d+ +0x\w+ (?P<ucx>\w+)\(\))"
)
"""A function in a trace of calls: as Open MPI and glibc print it, gdb and sanitizers, UCX."""
_EMPTY = re.compile(
    r"^\W*File \"|FAILED\s*$|Root Cause|End of error message|\^{3,}|frame #\d+|<NO_OTHER_FAILURES>|"
    r"ChildFailedError:?\s*$|MPI_ERRORS_ARE_FATAL|Other Failures|^\W*$|"
    r"running processes found|^Vulnerability |Could not collect|Structured Error Msg: <NONE>|Environment variable '"
)
"""What stands around a failure in many logs, and tells nothing of it."""
_SYSTEM = re.compile(
    r"lib(?:c|pthread|ucs)[-.]|ld-linux|linux-vdso|^(?:_*(?:raise|abort|kill|libc|restore_rt|start)|ucs_)"
)
_PROGRESS = re.compile(
    r"(?i)(?:epoch|(?<!\*\*\* )step|iter(?:ation)?|loss|samples|tokens)(?:_num|_count)?['\"]?[ \t:=|]{1,4}[\[({]?\d|"
    r"HTTP/[\d.]+[\"'] 200\b|throughput: +\d|\d ?(?:it|s|samples|tokens|imgs?|images)/(?:s|it|sec)\b|"
    r"\d +(?:half|b?float\d*|double|u?int\d+|f8e\w+) +(?:sum|prod|min|max|avg|none) +-?\d"
)
"""What trainings print at each step, by their own counters: of Lightning, transformers, Megatron, MLPerf, tqdm; what
servers do, of uvicorn and vLLM; then a row of nccl-tests."""
_DONE = re.compile(
    r"Application startup complete|^(?:[\w.]+: )?PASS(?:ED)?\b|Out of bounds values : 0 OK|"
    r"(?i:\btraining (?:has )?(?:finished|completed?)\b)"
)
"""What a server prints that is up, a test that passed, and a training at its end; it counts as many steps."""


@value_class
class Tail:
    """The end of a log, or another part of it. log: its name. line, offset: the numbers of its first line and byte."""

    log: str
    line: int
    offset: int
    data: bytes

    @classmethod
    def of(cls, log: str, last: Block) -> Tail:
        """Return what is kept of the last block of a log, from the start of a line on."""
        start = max(len(last.data) - TAIL_BYTES, 0)
        start = last.data.find(b"\n", start) + 1 if start else 0
        line = last.line + last.data.count(b"\n", 0, start)
        return cls(log=log, line=line, offset=last.offset + start, data=last.data[start:])

    @classmethod
    def around(cls, log: str, block: Block, at: int, line: int) -> Tail:
        """Return what stands around a place in a block, whose line has this number."""
        start = block.data.rfind(b"\n", 0, max(at - NEAR_BYTES, 0)) + 1
        line -= block.data.count(b"\n", start, at)
        return cls(log=log, line=line, offset=block.offset + start, data=block.data[start : at + NEAR_BYTES])

    def progress_after(self, offset: int) -> int:
        """Return how many lines of progress stand behind the line of a place."""
        return sum(map(_steps, self._lines_after(offset)))

    def goes_on_after(self, offset: int) -> bool:
        """Tell if a log goes on behind the line of a place, as it does where a shell complained."""
        return _goes_on(self._lines_after(offset))

    def last_words(self, offset: int = -1) -> LastWords | None:
        """Return the line that says most of a failure, if a training does not go on behind it; else nothing.

        offset: of a place, behind whose line it stands; by default it may be any line.
        """
        is_ignored, steps = False, 0
        found: list[tuple[int, str]] = []
        lines = self._lines_after(offset)
        for number, line in enumerate(lines):
            is_ignored = is_ignored or IGNORED in line
            if not _speaks(line):
                steps += _steps(line)
            elif is_ignored or (is_of_shell(line) and _goes_on(lines[number + 1 :])):
                is_ignored = False
            else:
                found, steps = [*(found if steps < ENOUGH else []), (number, line)], 0
        if not found or steps >= ENOUGH:
            return None
        number, line = max(found, key=lambda one: weight(one[1]))
        behind = lines[number + 1 :]
        is_last = not any(map(str.strip, behind[LAST_LINES - 1 :])) and not any(map(_WELL.search, behind))
        is_last = is_last and bool(_STATES.search(line)) and not is_of_shell(line)
        return self._words(number, line, is_last=is_last)

    def telling(self) -> Iterator[LastWords]:
        """Yield the lines that tell something of a failure, each kind once, and where a crash was."""
        seen: set[str] = set()
        for number, line in enumerate(self._lines_after(-1)):
            frame = _FRAME.match(line)
            if frame and _SYSTEM.search("".join(filter(None, frame.groups()))):
                continue
            kind = "a frame" if frame else kind_of(line)
            if kind not in seen and (frame or _tells(line)):
                seen.add(kind)
                yield self._words(number, line, more=PLAIN * bool(frame))

    def _words(self, number: int, line: str, *, more: int = 0, is_last: bool = False) -> LastWords:
        """Return a line of this number as it is shown. more: weight that it has beyond its words."""
        text, place = shortened(without_secrets(line), SHOWN), f"{self.log}:{self.line + number}"
        return LastWords(text=text, place=place, weight=weight(line) + more, is_last=is_last)

    def _lines_after(self, offset: int) -> list[str]:
        start = self.data.find(b"\n", offset - self.offset) + 1 or len(self.data) if offset >= self.offset else 0
        return self.data[start:].decode("utf-8", "replace").splitlines()


@value_class
class LastWords:
    """A line at the end of a log that speaks of a failure, where it stands, and how much it says.

    is_last: it states that the run failed, and nothing of weight stands behind it.
    """

    text: str
    place: str
    weight: int
    is_last: bool = False


def weight(line: str) -> int:
    """Return how much a line says of why something failed; one that only says that it did follows from another."""
    return PLAIN * bool(_SAYS_WHY.search(line)) + bool(_SPEAKS.search(line)) - 3 * bool(_FOLLOWS.search(line))


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


def _steps(line: str) -> int:
    if _speaks(line):
        return 0
    return MANY if _DONE.search(line) else int(bool(_PROGRESS.search(line)))


def _speaks(line: str) -> bool:
    return bool(_SPEAKS.search(line) and not _HARMLESS.search(line)) and not is_code(line)


def _tells(line: str) -> bool:
    """Tell if a line says something of a failure, beyond that one was."""
    if any(words.search(line) for words in (_HARMLESS, _EMPTY, _FOLLOWS)) or is_code(line):
        return False
    return bool(_SPEAKS.search(line) or _TELLS.search(line))


def quotes(tails: Iterable[Tail], kinds: Sequence[str]) -> tuple[LastWords, ...]:
    """Return the few lines that say most of a failure, in their order; kinds: of the lines that are shown already."""
    lines = [words for tail in tails for words in tail.telling() if not is_told(words.text, kinds)]
    best = sorted(lines, key=lambda words: -words.weight)[:MOST_QUOTES]
    return tuple(words for words in lines if words in best)


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

"""Says what uv's words mean when it fails: one row for each kind of failure."""

from __future__ import annotations

import errno
import re
from typing import NamedTuple

from uenvtool.core.errors import AnswerIsNo, ToolFailed, UenvtoolError

KEEP_LINES = 12
NOTHING_CHANGED = "nothing was changed"


class NoSolution(AnswerIsNo):
    """The requirements contradict each other or the base. explanation: all of uv's words."""

    def __init__(self, explanation: str, note: str = "") -> None:
        short = f"{short_text(explanation)}\n{note}" if note else short_text(explanation)
        super().__init__(short, hint=f"ask for versions that exist and fit together; {NOTHING_CHANGED}")
        self.explanation = explanation


class IndexFailed(ToolFailed):
    """An index does not answer, or refuses to."""


class DiskFull(ToolFailed):
    """The place of the work has no space left."""


class Meaning(NamedTuple):
    """One kind of failure.

    pattern: what uv's words have in them, its line breaks taken as spaces. error: what it is here. text, hint:
    what the user reads; {short} stands for uv's words, other names for groups of the pattern. Tests make uv
    0.13.9 say so, but for the last but one.
    """

    pattern: str
    error: type[UenvtoolError]
    text: str = "{all}"
    hint: str = ""


MEANINGS = (
    Meaning(
        r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b",
        DiskFull,
        "{short}",
        "free space, or set TMPDIR to a folder that has some",
    ),
    Meaning(r"network was disabled", ToolFailed, "{first}", "the network is switched off for uv"),
    Meaning(
        r"Failed to build `(?P<package>[^`]+)`.*No module named '(?P<module>torch[\w.]*)'",
        ToolFailed,
        "{package} is built from its source, and its build needs torch, which lies in the base",
        "build it on the base's torch: --no-build-isolation {name}",
    ),
    Meaning(
        r"Hash mismatch for `(?P<package>[^`]+)`",
        ToolFailed,
        "the file of {package} that came is not the one of the lock: {short}",
        "somebody has changed it, or the lock: install it only if you know why, with a new lock "
        "(uenvtool venv PATH PACKAGE...)",
    ),
    Meaning(
        r"error sending request|Failed to fetch|dns error|Could not connect|timed out|Connection refused",
        IndexFailed,
        "an index does not answer: {short}",
        "check the network and the index, or give wheels with PIP_FIND_LINKS and PIP_NO_INDEX=1",
    ),
    Meaning(
        r"Failed to build `(?P<package>[^`]+)`.*No module named '(?P<module>[\w.]+)'",
        ToolFailed,
        "{package} is built from its source, and its build needs the Python module {module}: {short}",
        "put that module's package into the overlay first, in a run of its own, then build {name} with "
        "--no-build-isolation {name}",
    ),
    Meaning(
        r"Failed to build `(?P<package>[^`]+)`",
        ToolFailed,
        "{package} could not be built from its source: {short}",
        "another version may have a wheel for this Python",
    ),
    Meaning(r"No solution found.* depends on ", NoSolution),
    Meaning(
        r"has no wheels with a matching|no wheels? .*compatible|no source distribution|doesn't have a (?:wheel|source)",
        ToolFailed,
        "no wheel for this platform: {short}",
        "another version may have one, or its source can be built",
    ),
    Meaning(
        r"which is incompatible with the `pylock",
        AnswerIsNo,
        "the lock is for another Python: {short}",
        "load the base that it was made for (the lock names it), or resolve anew: uenvtool venv PATH PACKAGE...",
    ),
    Meaning(
        r"\b(401 Unauthorized|403 Forbidden|407 Proxy)",
        IndexFailed,
        "an index refuses to answer: {short}",
        "check its address and your credentials",
    ),
    Meaning(
        r"invalid package format|Failed to read from zip file",
        ToolFailed,
        "a package is damaged: {short}",
        "get it again",
    ),
    Meaning(
        r"(?:Because|and) (?P<package>\S+) was not found in the (?:package registry|provided package locations)",
        AnswerIsNo,
        "no index has {package}: {short}",
        "check the name",
    ),
    Meaning(
        r"was not found in the package registry|not found in the provided package locations",
        AnswerIsNo,
        "no index has a package: {short}",
        "check the name",
    ),
    Meaning(r"No solution found", NoSolution),
)


def failure(stderr: str) -> UenvtoolError:
    """Return what uv's words mean, as an error with the right exit code."""
    text = stderr.strip() or "uv failed and printed nothing"
    flat = " ".join(text.split())  # it breaks its lines where they would be too long for a terminal
    for meaning in MEANINGS:
        match = re.search(meaning.pattern, flat)
        if match and meaning.error is NoSolution:
            return NoSolution(text)
        if match:
            groups = match.groupdict()
            name = re.split(r"[=@\s]", groups.get("package") or "", maxsplit=1)[0]
            first = text.splitlines()[0].removeprefix("error: ")
            words = {"short": short_text(text), "first": first, "name": name, **groups}
            return meaning.error(
                meaning.text.format(**words), hint=f"{meaning.hint.format(**words)}; {NOTHING_CHANGED}"
            )
    return ToolFailed(f"uv: {short_text(text)}", hint=NOTHING_CHANGED)


def is_out_of_space(error: BaseException) -> bool:
    """Tell if an error is that of a disk, or a quota, with no space left."""
    cause = error.__cause__
    return isinstance(error, DiskFull) or (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT))


def short_text(text: str) -> str:
    """Return the first and last lines of what uv printed, which can be hundreds."""
    lines = [line for line in text.removeprefix("error: ").splitlines() if line.strip()]
    half = KEEP_LINES // 2
    if len(lines) > KEEP_LINES:
        lines = [*lines[:half], f"  ... {len(lines) - KEEP_LINES} lines ...", *lines[-half:]]
    return "\n".join(lines)

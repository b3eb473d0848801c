"""What uv's words mean when it fails: one row for each kind of failure."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass

from uenvtool.core.errors import AnswerIsNo, ToolFailed, UenvtoolError

KEEP_LINES = 12
NOTHING_CHANGED = "nothing was changed"


class NoSolution(AnswerIsNo):
    """The requirements contradict each other or the base. explanation: all of uv's words."""

    def __init__(self, explanation: str, note: str = "") -> None:
        short = f"{short_text(explanation)}\n{note}" if note else short_text(explanation)
        super().__init__(short, hint=f"ask for versions that exist and fit together; {NOTHING_CHANGED}")
        self.explanation = explanation


class BuildFailed(ToolFailed):
    """A package could not be built from its source."""


class IndexFailed(ToolFailed):
    """An index does not answer, or refuses to."""


class DiskFull(ToolFailed):
    """The place of the work has no space left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One kind of failure.

    pattern: what uv's words have in them, its line breaks taken as spaces. error: what it is here. text, hint:
    what the user reads; {short} stands for uv's words, other names for groups of the pattern. seen_in: the
    version of uv that said so in a test, None if no test makes it say so.
    """

    pattern: str
    error: Callable[[str, str], UenvtoolError]
    text: str
    hint: str = NOTHING_CHANGED
    seen_in: str | None = "0.13.9"


def _failed(text: str, hint: str) -> UenvtoolError:
    return ToolFailed(text, hint=hint)


def _no(text: str, hint: str) -> UenvtoolError:
    return AnswerIsNo(text, hint=hint)


def _disk_full(text: str, hint: str) -> UenvtoolError:
    return DiskFull(text, hint=hint)


def _index_failed(text: str, hint: str) -> UenvtoolError:
    return IndexFailed(text, hint=hint)


def _build_failed(text: str, hint: str) -> UenvtoolError:
    return BuildFailed(text, hint=hint)


MEANINGS = (
    Meaning(
        pattern=r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b",
        error=_disk_full,
        text="{short}",
        hint=f"free space, or set TMPDIR to a folder that has some; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"network was disabled",
        error=_failed,
        text="{first}",
        hint=f"the network is switched off for uv; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"Failed to build `(?P<package>[^`]+)`.*No module named '(?P<module>torch[\w.]*)'",
        error=_build_failed,
        text="{package} is built from its source, and its build needs torch, which lies in the base",
        hint=f"build it on the base's torch: --no-build-isolation {{name}}; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"Hash mismatch for `(?P<package>[^`]+)`",
        error=_failed,
        text="the file of {package} that came is not the one of the lock: {short}",
        hint="somebody has changed it, or the lock: install it only if you know why, with a new lock "
        f"(uenvtool venv PATH PACKAGE...); {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"error sending request|Failed to fetch|dns error|Could not connect|timed out|Connection refused",
        error=_index_failed,
        text="an index does not answer: {short}",
        hint="check the network and the index, or give wheels with PIP_FIND_LINKS and PIP_NO_INDEX=1; "
        + NOTHING_CHANGED,
    ),
    Meaning(
        pattern=r"Failed to build `(?P<package>[^`]+)`.*No module named '(?P<module>[\w.]+)'",
        error=_build_failed,
        text="{package} is built from its source, and its build needs the Python module {module}: {short}",
        hint="put that module's package into the overlay first, in a run of its own, then build {name} with "
        f"--no-build-isolation {{name}}; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"Failed to build `(?P<package>[^`]+)`",
        error=_build_failed,
        text="{package} could not be built from its source: {short}",
        hint=f"another version may have a wheel for this Python; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"No solution found.* depends on ",
        error=lambda text, hint: NoSolution(text),
        text="{all}",
    ),
    Meaning(
        pattern=r"has no wheels with a matching|no wheels? .*compatible|no source distribution"
        r"|doesn't have a (?:wheel|source)",
        error=_failed,
        text="no wheel for this platform: {short}",
        hint=f"another version may have one, or its source can be built; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"which is incompatible with the `pylock",
        error=_no,
        text="the lock is for another Python: {short}",
        hint="load the base that it was made for (the lock names it), or resolve anew: uenvtool venv PATH PACKAGE...",
    ),
    Meaning(
        pattern=r"\b(401 Unauthorized|403 Forbidden|407 Proxy)",
        error=_index_failed,
        text="an index refuses to answer: {short}",
        hint="check its address and your credentials",
    ),
    Meaning(
        pattern=r"invalid package format|Failed to read from zip file",
        error=_failed,
        text="a package is damaged: {short}",
        hint=f"get it again; {NOTHING_CHANGED}",
    ),
    Meaning(
        pattern=r"(?:Because|and) (?P<package>\S+) was not found in the "
        r"(?:package registry|provided package locations)",
        error=_no,
        text="no index has {package}: {short}",
        hint="check the name",
    ),
    Meaning(
        pattern=r"was not found in the package registry|not found in the provided package locations",
        error=_no,
        text="no index has a package: {short}",
        hint="check the name",
        seen_in=None,
    ),
    Meaning(
        pattern=r"No solution found",
        error=lambda text, hint: NoSolution(text),
        text="{all}",
    ),
)


def failure(stderr: str) -> UenvtoolError:
    """What uv's words mean, as an error with the right exit code."""
    text = stderr.strip() or "uv failed and printed nothing"
    flat = " ".join(text.split())  # it breaks its lines where they would be too long for a terminal
    for meaning in MEANINGS:
        match = re.search(meaning.pattern, flat)
        if match:
            groups = match.groupdict()
            name = re.split(r"[=@\s]", groups.get("package") or "", maxsplit=1)[0]
            words = {"short": short_text(text), "first": _first_line(text), "all": text, "name": name, **groups}
            return meaning.error(meaning.text.format(**words), meaning.hint.format(**words))
    return ToolFailed(f"uv: {short_text(text)}", hint=NOTHING_CHANGED)


def no_space(error: BaseException) -> bool:
    """Tell if an error is that of a disk, or a quota, with no space left."""
    cause = error.__cause__
    return isinstance(error, DiskFull) or (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT))


def short_text(text: str) -> str:
    """The first and last lines of what uv printed, which can be hundreds."""
    lines = [line for line in text.removeprefix("error: ").splitlines() if line.strip()]
    if len(lines) <= KEEP_LINES:
        return "\n".join(lines)
    return "\n".join(
        [*lines[: KEEP_LINES // 2], f"  ... {len(lines) - KEEP_LINES} lines ...", *lines[-KEEP_LINES // 2 :]]
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0].removeprefix("error: ")

"""Says what uv's words mean when it fails, by failures.yaml."""

from __future__ import annotations

import errno
import functools
import re
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, ToolFailed, UenvtoolError

DATA = Path(__file__).parent / "failures.yaml"
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


_KINDS: dict[str, type[UenvtoolError]] = {
    "answer": AnswerIsNo,
    "failed": ToolFailed,
    "index": IndexFailed,
    "disk": DiskFull,
}


@functools.cache
def _meanings() -> list[dict[str, str]]:
    import yaml

    found: list[dict[str, str]] = yaml.load(DATA.read_bytes(), Loader=yaml.CSafeLoader)["failures"]
    return found


def failure(stderr: str) -> UenvtoolError:
    """Return what uv's words mean, as an error with the right exit code."""
    text = stderr.strip() or "uv failed and printed nothing"
    flat = " ".join(text.split())  # it breaks its lines where they would be too long for a terminal
    pairs = ((meaning, re.search(meaning["pattern"], flat)) for meaning in _meanings())
    meaning, match = next(((meaning, match) for meaning, match in pairs if match), ({}, None))
    if match is None:
        return ToolFailed(f"uv: {short_text(text)}", hint=NOTHING_CHANGED)
    if meaning["kind"] == "conflict":
        return NoSolution(text)
    groups = match.groupdict()
    name = re.split(r"[=@\s]", groups.get("package") or "", maxsplit=1)[0]
    words = {"short": short_text(text), "first": text.splitlines()[0].removeprefix("error: "), "name": name, **groups}
    hint = f"{meaning['hint'].format(**words)}; {NOTHING_CHANGED}"
    return _KINDS[meaning["kind"]](meaning["text"].format(**words), hint=hint)


def is_out_of_space(error: BaseException) -> bool:
    """Tell if an error is that of a disk, or a quota, with no space left."""
    cause = error.__cause__
    return isinstance(error, DiskFull) or (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT))


def short_text(text: str) -> str:
    """Return the first and last lines of what uv printed, which can be hundreds."""
    sentences = text.removeprefix("error: ").replace("\n  cause: ", "\ncause: ")  # indented lines are not wrapped
    lines = [line for line in sentences.splitlines() if line.strip()]
    half = KEEP_LINES // 2
    if len(lines) > KEEP_LINES:
        lines = [*lines[:half], f"  ... {len(lines) - KEEP_LINES} lines ...", *lines[-half:]]
    return "\n".join(lines)

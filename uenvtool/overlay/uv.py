"""Drives uv: resolving, locking and installing, and what its failures mean."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool import tools
from uenvtool.errors import AnswerIsNo, ToolFailed, ToolMissing, UenvtoolError
from uenvtool.overlay.settings import Settings

HOW_TO_GET = "`pip install uv` beside uenvtool, or see https://docs.astral.sh/uv/"
KEEP_LINES = 12
OUTSIDE = r"Skipping unsafe file name: (.*)"
"""uv leaves such a file out and says so in its log alone (its crate uv-extract)."""


class NoSolution(AnswerIsNo):
    """The requirements contradict each other or the base. said: all of uv's words."""

    def __init__(self, said: str, note: str = "") -> None:
        short = f"{_short(said)}\n{note}" if note else _short(said)
        super().__init__(short, hint="ask for versions that exist and fit together; nothing was changed")
        self.said = said


class DiskFull(ToolFailed):
    """The place where work is done has no more room."""


@dataclass(frozen=True, slots=True)
class Uv:
    """uv with the user's settings, working in one folder of the tool's own."""

    program: str
    settings: Settings
    work: Path

    def environment(self) -> dict[str, str]:
        """uv's environment: nothing is kept in the user's home unless the user has named a cache."""
        temporary = self.work / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        env = {
            **self.settings.environment,
            "TMPDIR": str(temporary),
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "NO_COLOR": "1",
            "COLUMNS": "1000",
            "RUST_LOG": "uv_extract=warn",
        }
        env.pop("VIRTUAL_ENV", None)
        env.pop("CONDA_PREFIX", None)
        env.pop("FORCE_COLOR", None)
        if not self.builds_on_base:
            for name in ("PYTHONPATH", "PYTHONUSERBASE", "PYTHONHOME"):
                env.pop(name, None)  # the base's packages would come before what a build asks for
        if not self.settings.has_cache:
            env["UV_CACHE_DIR"] = str(self.work / "cache")
        return env

    def run(self, arguments: Sequence[str | Path]) -> str:
        """Run uv; what it printed. Raises what its failure means."""
        words = [self.program, *map(str, arguments), *self.settings.arguments]
        completed = tools.run(words, env=self.environment())
        if completed.code != 0:
            raise failure(completed.stderr)
        outside = re.search(OUTSIDE, completed.stderr)
        if outside:
            raise ToolFailed(
                f"a package has a file that leads out of the overlay: {outside[1]}",
                hint="do not install it, and tell where you have it from; nothing was changed",
            )
        return completed.stdout

    def run_again(self, arguments: Sequence[str | Path]) -> str:
        """Run uv on what it has just resolved, from its cache: an index that mirrors feed can answer two ways.

        Where the cache has not all of it, as when an index forbids that, the index is asked.
        """
        try:
            return self.run([*arguments, "--offline"])
        except DiskFull:
            raise
        except UenvtoolError:
            return self.run(arguments)

    @property
    def builds_on_base(self) -> bool:
        """Whether sources are built with the packages that are there (--no-build-isolation)."""
        return "--no-build-isolation" in self.settings.arguments or bool(
            self.settings.environment.get("UV_NO_BUILD_ISOLATION")
        )

    @property
    def link_mode(self) -> str:
        """How uv puts files into the overlay: never as links into a cache that the user keeps."""
        return "copy" if self.settings.has_cache else "hardlink"


def find_uv() -> str:
    """uv's program: of its wheel, else on PATH. Raises ToolMissing."""
    try:
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        if found is None:
            raise ToolMissing("uv is not here", hint=HOW_TO_GET) from None
        return found


def no_room(error: BaseException) -> bool:
    """Whether an error is that of a disk, or a quota, with no more room."""
    cause = error.__cause__
    return isinstance(error, DiskFull) or (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT))


def failure(said: str) -> UenvtoolError:
    """What uv's words mean, as an error with the right exit code."""
    text = said.strip() or "uv said nothing"
    flat = " ".join(text.split())  # it breaks its lines where they would be too long for a terminal
    if re.search(r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b", flat):
        return DiskFull(_short(text), hint="free space, or set TMPDIR to a folder that has some; nothing was changed")
    if re.search(r"network was disabled", flat):
        return ToolFailed(_first(text), hint="the network is switched off for uv; nothing was changed")
    if re.search(
        r"error sending request|Failed to fetch|dns error|Could not connect|timed out|Connection refused", flat
    ):
        return ToolFailed(
            f"an index does not answer: {_short(text)}",
            hint="check the network and the index, or give wheels with PIP_FIND_LINKS and PIP_NO_INDEX=1; "
            "nothing was changed",
        )
    if "No solution found" in flat and " depends on " in flat:
        return NoSolution(text)
    if re.search(
        r"has no wheels with a matching|no wheels? .*compatible|no source distribution|doesn't have a (?:wheel|source)",
        flat,
    ):
        return ToolFailed(
            f"no wheel for this platform: {_short(text)}",
            hint="another version may have one, or its source can be built; nothing was changed",
        )
    if "which is incompatible with the `pylock" in flat:
        hint = "load the base that it was made for (the lock names it), or resolve anew: uenvtool venv PATH PACKAGE..."
        return AnswerIsNo(f"the lock is for another Python: {_short(text)}", hint=hint)
    if re.search(r"\b(401 Unauthorized|403 Forbidden|407 Proxy)", flat):
        return ToolFailed(f"an index refuses to answer: {_short(text)}", hint="check its address and your credentials")
    if "invalid package format" in flat or "Failed to read from zip file" in flat:
        return ToolFailed(f"a package is damaged: {_short(text)}", hint="get it again; nothing was changed")
    if "was not found in the package registry" in flat or "not found in the provided package locations" in flat:
        name = re.search(r"(?:Because|and) (\S+) was not found in the", flat)
        return AnswerIsNo(f"no index has {name[1] if name else 'a package'}: {_short(text)}", hint="check the name")
    if "No solution found" in flat:
        return NoSolution(text)
    return ToolFailed(f"uv: {_short(text)}", hint="nothing was changed")


def _first(text: str) -> str:
    return text.splitlines()[0].removeprefix("error: ")


def _short(text: str) -> str:
    """The first lines of what uv said, which can be hundreds."""
    lines = [line for line in text.removeprefix("error: ").splitlines() if line.strip()]
    if len(lines) <= KEEP_LINES:
        return "\n".join(lines)
    return "\n".join(
        [*lines[: KEEP_LINES // 2], f"  ... {len(lines) - KEEP_LINES} lines ...", *lines[-KEEP_LINES // 2 :]]
    )

"""Skips tests whose program is not installed, as "needs NAME: how to get it", and summarizes the skips of a run.

A test is skipped automatically when it starts a missing program that packages.txt lists. `need` and `needs` skip a test
before it begins. Use them if the test works for a long time before it starts the program, or if another program starts
it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

from uenvtool.core.errors import ToolMissing


def _packages() -> dict[str, str]:
    lines = Path(__file__).with_name("packages.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {program: package for package, *programs in rows for program in programs}


PACKAGES = _packages()
"""The Debian package of each optional program."""
SESSION_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""The directories of installed programs. Tests change PATH, and uenvtool also searches /usr/sbin and /sbin."""
BY_APT = "apt-get install "
REASON = re.compile(r"(?:Skipped: )?needs (?P<name>.+?): (?P<how>.+)", re.DOTALL)
NOT_ON_PATH = re.compile(r"the program (\S+) is not on PATH")

needs_solver = pytest.mark.skipif(find_spec("clingo") is None, reason="needs Spack's solver: pip install clingo")
"""Marks the tests in which real Spack resolves."""


def how_to_get(program: str) -> str:
    """Return the command that installs a program of packages.txt on Debian and Ubuntu."""
    return BY_APT + PACKAGES[program]


def installed(program: str) -> str | None:
    """Return the path of a program, or None if it is not installed."""
    return shutil.which(program, path=SESSION_PATH)


def skip_without(name: str, how: str) -> NoReturn:
    """Skip this test because it needs `name`. how: one line that explains how to get it."""
    pytest.skip(f"needs {name}: {how}")


def need(*programs: str) -> str:
    """Return the path of the first of these programs, or skip the test if one of them is not installed."""
    ways = {program: how_to_get(program) for program in programs}
    for program, how in ways.items():
        if installed(program) is None:
            skip_without(program, how)
    return installed(programs[0]) or programs[0]


def needs(*programs: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests or of a module that need these programs."""
    return [
        pytest.mark.skipif(installed(program) is None, reason=f"needs {program}: {how_to_get(program)}")
        for program in programs
    ]


def skip_if_missing(programs: Iterable[str]) -> None:
    """Skip this test if one of these programs is optional and not installed.

    A test that has removed `sh` from PATH tests the behaviour without programs, and is not skipped.
    """
    if shutil.which("sh"):
        for program in programs:
            if program in PACKAGES:
                need(program)


@contextmanager
def skips_if_reached() -> Iterator[None]:
    """Skip this test if the body of the `with` statement fails because an optional program is not installed."""
    try:
        yield
    except Exception as error:
        skip_if_missing(_not_found_by(error))
        raise


def not_on_path(text: str) -> list[str]:
    """Return the programs that uenvtool did not find according to its output."""
    return NOT_ON_PATH.findall(text)


def _not_found_by(error: BaseException | None) -> Iterator[str]:
    """Yield the programs that an exception or one of its causes names as not found."""
    while error:
        if isinstance(error, FileNotFoundError):
            yield str(error.filename)
        elif isinstance(error, ToolMissing):
            yield from not_on_path(str(error))
        elif isinstance(error, subprocess.CalledProcessError):
            yield from not_on_path(str(error.stderr))
        error = error.__cause__ or error.__context__


def reason_of(report: pytest.TestReport) -> str:
    """Return the reason why a test was skipped."""
    assert isinstance(report.longrepr, tuple)
    return report.longrepr[2]


def folded(skipped: Iterable[pytest.TestReport]) -> list[pytest.TestReport]:
    """Return one report for all tests that need the same program, with their number in the reason ("(12 tests)").

    Skips for other reasons than "needs NAME: how to get it" are not changed.
    """
    groups: dict[str, list[pytest.TestReport]] = {}
    for report in skipped:
        reason = reason_of(report)
        groups.setdefault(reason if REASON.fullmatch(reason) else report.nodeid, []).append(report)
    for reason, (first, *others) in groups.items():
        if others and isinstance(first.longrepr, tuple):
            first.longrepr = (*first.longrepr[:2], f"{reason} ({len(others) + 1} tests)")
    return [reports[0] for reports in groups.values()]


def summary(reasons: Iterable[str], tests: int) -> list[str]:
    """Return up to three lines that summarize the skipped tests and how to run them, or an empty list.

    reasons: the reason of each skip. tests: the number of tests that were run or skipped.
    """
    found = [REASON.fullmatch(reason) for reason in reasons]
    if not found:
        return []
    counts = Counter(match["name"] if match else "other reasons" for match in found)
    ways = {match["how"] for match in found if match}
    by_apt = {way: way.removeprefix(BY_APT).split() for way in ways if way.startswith(BY_APT)}
    known = {way: names for way, names in by_apt.items() if set(names) <= set(PACKAGES.values())}
    packages = sorted({name for names in known.values() for name in names})
    named = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    lines = [f"{len(found)} of {tests} tests were skipped; missing: {named}"]
    if packages:
        lines.append(f"as root: {BY_APT}{' '.join(packages)}")
    if ways - known.keys() or None in found:
        lines.append('other programs: see CONTRIBUTING.md, "Real programs in tests"; tools/test -rs prints each reason')
    return [textwrap.shorten(line, 500, placeholder=" ...") for line in lines]

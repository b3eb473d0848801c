"""Skipping for want of a program, always as "needs NAME: how to get it", and what a run says of it at its end."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from typing import NoReturn

import pytest

PACKAGES = {
    "mksquashfs": "squashfs-tools",
    "slurmctld": "slurm-wlm",
    "munged": "munge",
    "cc": "gcc",
    "pgrep": "procps",
    "xz": "xz-utils",
    "mount": "mount",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}
"""The Debian package of a program, if its name is another one."""
BY_APT = "apt-get install "
REASON = re.compile(r"(?:Skipped: )?needs (?P<name>.+?): (?P<how>.+)", re.DOTALL)

needs_solver = pytest.mark.skipif(find_spec("clingo") is None, reason="needs Spack's solver: pip install clingo")
"""Marks the tests in which real Spack resolves."""


def how_to_get(program: str) -> str:
    """The command that installs a program on Debian and Ubuntu."""
    return BY_APT + PACKAGES.get(program, program)


def skip_without(name: str, how: str) -> NoReturn:
    """Skip this test: it needs `name`, and `how` says in one line how to get it."""
    pytest.skip(f"needs {name}: {how}")


def need(*programs: str) -> str:
    """The path of the first of these programs; skips the test if one of them is missing."""
    for program in programs:
        if shutil.which(program) is None:
            skip_without(program, how_to_get(program))
    return shutil.which(programs[0]) or programs[0]


def needs(*programs: str) -> list[pytest.MarkDecorator]:
    """The marks of tests or of a module that need these programs."""
    return [
        pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}: {how_to_get(program)}")
        for program in programs
    ]


def summary(reasons: Iterable[str], tests: int) -> list[str]:
    """Three lines on what was skipped and how to get it, from the reasons of all skipped tests; none if there are none.

    tests: how many tests were run or skipped.
    """
    found = [REASON.fullmatch(reason) for reason in reasons]
    if not found:
        return []
    counts = Counter(match["name"] if match else "another reason" for match in found)
    packages = {match["how"].removeprefix(BY_APT) for match in found if match and match["how"].startswith(BY_APT)}
    others = {match["name"] for match in found if match and not match["how"].startswith(BY_APT)}
    named = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
    lines = [f"{len(found)} of {tests} tests were skipped, for want of: {named}"]
    if packages:
        lines.append(f"as root: {BY_APT}{' '.join(sorted(packages))}")
    if others or None in found:
        lines.append('how to get the others: CONTRIBUTING.md, "Real programs in tests"; each reason: tools/test -rs')
    return [textwrap.shorten(line, 500, placeholder=" ...") for line in lines]

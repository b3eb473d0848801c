"""Traces the system calls of a program with strace."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.support.needs import need, skip_without


@cache
def _traces() -> bool:
    return subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False).returncode == 0


def need_strace() -> None:
    """Skip the test if strace does not work on this machine."""
    need("strace")
    if not _traces():
        skip_without("a machine that allows strace", "run the tests outside a restricted container")


def traced(
    words: Sequence[str | Path], calls: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> list[str]:
    """Return strace's lines for some calls ("open,stat") of a program and its children, or skip the test.

    Raises:
        subprocess.CalledProcessError: the program fails.
    """
    need_strace()
    with tempfile.NamedTemporaryFile("r", suffix=".strace") as log:
        command = ["strace", "-f", "-qq", "-e", f"trace={calls}", "-o", log.name, *map(str, words)]
        subprocess.run(command, env=env, cwd=cwd, capture_output=True, check=True)
        return log.read().splitlines()

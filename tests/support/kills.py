"""Runs uenvtool in a separate process, which a test can kill."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.project import ROOT

PRELUDE = f"""
import signal, sys
sys.path.insert(0, {str(ROOT)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs, and SIGHUP with nohup:
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
MAIN = "from uenvtool.__main__ import main; main()"
"""The code after the prelude, which runs the command line."""
FROM_HERE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {MAIN}"
"""The command line of this checkout, from any directory and environment."""


def command(*words: str | Path, code: str = MAIN) -> list[str]:
    """Return the command that runs uenvtool of this checkout in a separate process."""
    return [sys.executable, "-E", "-c", PRELUDE + code, *map(str, words)]

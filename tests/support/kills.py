"""uenvtool in a process of its own, which a test can kill."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.project import ROOT

PRELUDE = f"""
import signal, sys
sys.path.insert(0, {str(ROOT)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it, those of nohup this:
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
MAIN = "from uenvtool.__main__ import main; main()"
"""What runs after the prelude: the command line."""
FROM_HERE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {MAIN}"
"""The command line of this checkout, whatever the folder and environment it is started in."""


def command(*words: str | Path, code: str = MAIN) -> list[str]:
    """uenvtool in a process of its own, from this checkout."""
    return [sys.executable, "-E", "-c", PRELUDE + code, *map(str, words)]

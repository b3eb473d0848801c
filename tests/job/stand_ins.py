"""Stand-ins that record the exact words a program is started with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path


def recorded(
    place: Path,
    name: str,
    words: Sequence[str],
    *,
    call: Callable[[], object] | None = None,
    code: int = 0,
    run: bool = False,
) -> list[list[str]]:
    """What a program of that name is started with while `words` run, or while `call` does.

    code: its exit code. run: it runs what stands behind an image, as a container does.
    """
    folder = place / "stand-ins"
    folder.mkdir(exist_ok=True)
    log = place / f"{name}.argv"
    program = folder / name
    inside = 'while [ "$1" != bash ]; do shift; done; "$@"\n' if run and not code else ""
    program.write_text(f"#!/bin/bash\nprintf '%s\\0' \"$#\" \"$@\" >>'{log}'\n{inside}exit {code}\n")
    program.chmod(0o755)
    if call is not None:
        call()
    else:
        subprocess.run(words, env={"PATH": f"{folder}:{os.environ['PATH']}"}, check=True, capture_output=True)
    return list(_calls(log.read_bytes().decode().split("\0")[:-1])) if log.exists() else []


def _calls(words: list[str]) -> list[list[str]]:
    found = []
    while words:
        count = int(words[0])
        found.append(words[1 : 1 + count])
        words = words[1 + count :]
    return found

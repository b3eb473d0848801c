"""Results of expensive real runs, kept in the cache folder until their inputs change."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.project import CACHE


def made_once(name: str, inputs: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` filled for these inputs, now or in an earlier run; read it, do not change it.

    inputs: all that the result depends on, as one text. A run that fails leaves nothing; two runs at
    once are safe: one works, the other waits.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = CACHE / f"{name}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old)
            work = Path(tempfile.mkdtemp(dir=CACHE))
            try:
                make(work)
                work.rename(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder

"""Results of expensive real runs, kept in the cache folder until their inputs change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.project import CACHE

UNUSED_SECONDS = 24 * 60 * 60
"""After which a result of other inputs is removed."""


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
                if time.time() - old.stat().st_mtime > UNUSED_SECONDS:  # a run of another checkout may read it now
                    shutil.rmtree(old)
            work = Path(tempfile.mkdtemp(dir=CACHE))
            try:
                make(work)
                work.rename(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        os.utime(folder)
    return folder

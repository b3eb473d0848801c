"""Results of expensive real runs, which stay in the cache until their inputs change."""

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
"""The age after which a result of other inputs is removed."""


def made_once(name: str, inputs: str, make: Callable[[Path], None]) -> Path:
    """Return the directory that `make` filled for these inputs, in this run or an earlier one. Do not change it.

    inputs: a text with everything that the result depends on. A run that fails leaves no result. If two runs call this
    function at the same time, one of them waits.
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

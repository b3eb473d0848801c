"""The directories of the project, and of the caches of the user who runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REAL_HOME = Path.home()
"""The home directory of the user. Each test gets an empty home directory."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or REAL_HOME / ".cache") / "uenvtool-tests"
"""The cache of expensive results for later runs, which is safe to delete."""

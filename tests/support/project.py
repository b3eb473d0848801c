"""Where the project lies, and where the person who runs the tests keeps caches."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REAL_HOME = Path.home()
"""The home folder of the person: each test gets an empty one of its own."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or REAL_HOME / ".cache") / "uenvtool-tests"
"""What takes long to make and is kept from one run to the next; safe to delete."""

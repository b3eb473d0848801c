"""The package index of whoever runs the tests; only pip's word that there is none lets a test be skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from typing import NoReturn

import pytest

from tests.support.needs import skip_without
from tests.support.project import REAL_HOME

SETTINGS = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_"))}
"""Those of pip and uv, as they are before a test sets its own; pip's files lie in REAL_HOME."""
UNREACHED = re.compile(r"^(Ignoring indexes: .*|Could not fetch URL https?://.*)", re.MULTILINE)
"""What pip says with -vv where it may ask no index, or where one does not answer."""


def environment() -> dict[str, str]:
    """The variables with which pip and uv find that index."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return {**others, **SETTINGS, "HOME": str(REAL_HOME)}


def fail_or_skip_without_index(said: str) -> NoReturn:
    """End a test that got no packages: skip it if pip reaches no index for a package that each has, else fail it.

    said: what the program said that failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ["download", "-vv", "--retries=0", "--no-deps", "--no-cache-dir", "--dest", folder, "packaging"]
        asked = subprocess.run(
            [sys.executable, "-m", "pip", *words], env=environment(), capture_output=True, text=True, check=False
        )
    if unreached := UNREACHED.search(asked.stdout + asked.stderr):
        skip_without("an index that answers", f"set PIP_INDEX_URL ({unreached[0]})")
    pytest.fail(said)

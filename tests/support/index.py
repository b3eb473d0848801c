"""The package index of the user who runs the tests. A test is skipped only if pip reports that no index answers."""

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
"""The variables of pip and uv before a test changes them. pip's configuration files are in REAL_HOME."""
UNREACHED = re.compile(r"^(Ignoring indexes: .*|Could not fetch URL https?://.*)", re.MULTILINE)
"""The output of pip -vv if it must not use an index, or if the index does not answer."""


def environment() -> dict[str, str]:
    """Return the variables with which pip and uv find the index."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return {**others, **SETTINGS, "HOME": str(REAL_HOME)}


def fail_or_skip_without_index(said: str) -> NoReturn:
    """End a test that got no packages. Skip it if pip cannot reach an index for a common package, or else fail it.

    said: the output of the program that failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = ["download", "-vv", "--retries=0", "--no-deps", "--no-cache-dir", "--dest", folder, "packaging"]
        asked = subprocess.run(
            [sys.executable, "-m", "pip", *words], env=environment(), capture_output=True, text=True, check=False
        )
    if unreached := UNREACHED.search(asked.stdout + asked.stderr):
        skip_without("a package index that answers", f"set PIP_INDEX_URL ({unreached[0]})")
    pytest.fail(said)

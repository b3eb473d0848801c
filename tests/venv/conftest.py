"""Makes overlays quickly: an overlay's Python is neither tried nor its modules compiled, and answers of uv are kept.

The modules of WHOLE do all that a user's run does, and so do all of them with --slow, as CI gives.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.recorded import ASK, Recorded
from uenvtool.core import processes

WHOLE = {"test_base", "test_bytecode", "test_interrupted"}
"""Modules whose tests are about what is left out here."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what other tests look at."""
    if request.config.getoption("--slow") or os.environ.get(ASK) or request.module.__name__.rpartition(".")[2] in WHOLE:
        return
    monkeypatch.setattr(processes, "run", Recorded(processes.run, tmp_path))
    monkeypatch.setattr("uenvtool.venv.overlay._wrong", lambda folder, base: "")
    monkeypatch.setattr("uenvtool.venv.install.compile_tree", lambda python, folder, checked: 0)

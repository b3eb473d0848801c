"""What overlay tests begin with: a base with a vendor's torch, and commands that have to succeed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Answer, Cli, Loaded
from tests.support.overlays import BaseHere, install, wheel

TORCH = "2.6.0a0+d883142"


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    """A base with a vendor's torch."""
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", TORCH))
    return found


@pytest.fixture
def done(cli: Cli) -> Cli:
    """Runs the command line, which has to succeed."""

    def call(*arguments: str | Path) -> Answer:
        answer = cli(*arguments)
        assert answer.code == 0, answer.stderr
        return answer

    return call


def record(folder: str | Path) -> Any:
    """The record of an overlay."""
    return json.loads(Path(folder, ".uenvtool/uenvtool.json").read_text())

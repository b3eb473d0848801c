"""Test that a hostile wheel writes nothing outside of its overlay, replaces no part of it, and runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BaseHere, wheel
from tests.support.samples import sampled


@pytest.mark.parametrize(
    "file",
    sampled(
        [
            "../../../../../evil",
            "/tmp/uenvtool-evil-file",
            "_uenvtool_overlay.py",
            "evil-1.0.data/data/bin/python",
            "evil-1.0.data/data/pyvenv.cfg",
            "evil-1.0.data/scripts/python3",
            "evil-1.0.data/data/bin/activate",
            "evil-1.0.data/data/.uenvtool/uenvtool.json",
        ],
        keep=4,
    ),
)
def test_a_wheel_that_writes_outside_or_replaces_a_part_of_the_overlay_is_refused(
    here: BaseHere, cli: Cli, wheels: Path, place: Path, file: str
) -> None:
    wheel(wheels, "evil", "1.0", files={file: "#!/bin/sh\necho evil\n"})
    before = {path.name for path in place.parent.iterdir()}

    answer = cli("venv", "v", "evil")

    assert answer.code in (1, 4)
    assert {path.name for path in place.parent.iterdir()} == before
    assert list(place.iterdir()) == []
    assert not Path("/tmp/uenvtool-evil-file").exists()


def test_nothing_of_a_wheel_runs_while_it_is_installed(here: BaseHere, done: Cli, wheels: Path, place: Path) -> None:
    mark = place.parent / "ran"
    code = f"open({str(mark)!r}, 'w').close()\n"
    files = {"evil/__init__.py": code, "evil.pth": "import evil\n", "sitecustomize.py": code}
    wheel(wheels, "evil", "1.0", files=files)

    done("venv", "v", "evil")

    assert not mark.exists()

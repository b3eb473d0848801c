"""Test that packing an overlay excludes another run that replaces it."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Cli
from tests.support.overlays import wheel
from uenvtool.core import files


def test_an_overlay_is_not_packed_while_another_run_replaces_it(
    cli: Cli, wheels: Path, no_base: None, place: Path
) -> None:
    wheel(wheels, "small", "1.0")
    assert cli("venv", "v", "small", "--no-base").code == 0

    with files.workplace(place / "v"):
        answer = cli("venv", "v", "--squash")

    assert answer.code == 4
    assert "v is in use" in answer.stderr
    assert not Path("v.squashfs").exists()
    assert cli("venv", "v", "--squash").code == 0

"""Test the arguments of `uenvtool venv`, --squash with and without a file, and `uenvtool show` of the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli
from uenvtool.venv.cli import with_empty_values


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], []),
        (["--squash"], ["--squash="]),
        (["v", "--squash", "numpy"], ["v", "--squash=", "numpy"]),
        (["v", "--squash", "a/e.squashfs", "numpy"], ["v", "--squash", "a/e.squashfs", "numpy"]),
        (["--squash=e.sqsh", "v"], ["--squash=e.sqsh", "v"]),
        (["--squash", "--json"], ["--squash=", "--json"]),
        (["v", "--", "--squash"], ["v", "--", "--squash"]),
        (["v", "numpy", "--no-build-isolation"], ["v", "numpy", "--no-build-isolation="]),
        (["v", "--no-build-isolation", "fa", "--json"], ["v", "--no-build-isolation", "fa", "--json"]),
        (["v", "--no-build-isolation", "--json"], ["v", "--no-build-isolation=", "--json"]),
    ],
)
def test_an_option_that_can_do_without_its_value_gets_an_empty_one(words: list[str], given: list[str]) -> None:
    assert list(with_empty_values(words)) == given


def test_show_tells_a_name_from_an_overlay_and_its_image(cli: Cli, place: Path) -> None:
    assert cli("venv", "clariden", "--no-base").code == 0

    assert cli("show", "./clariden").stdout.startswith("overlay: clariden")
    assert cli("show", "clariden").stdout.startswith("description: ")

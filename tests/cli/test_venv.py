"""The words of `uenvtool venv`: verbs beside a default command, and --squash with or without a file."""

from __future__ import annotations

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


def test_help_of_the_command_and_of_its_verbs(cli: Cli) -> None:
    assert "Usage: uenvtool venv [OPTIONS] [PATH] [PACKAGE]..." in cli("venv", "--help").stdout
    assert "Usage: uenvtool venv info [OPTIONS] {IMAGE|PATH}" in cli("venv", "info", "--help").stdout

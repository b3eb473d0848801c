"""The words of `uenvtool venv`: verbs beside a default command, and --squash with or without a file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import Answer
from uenvtool.cli.venv import _with_image


@pytest.mark.parametrize(
    ("words", "image"),
    [
        (["--squash"], ["--squash="]),
        (["v", "--squash", "numpy"], ["v", "--squash=", "numpy"]),
        (["v", "--squash", "a/e.squashfs", "numpy"], ["v", "--squash=a/e.squashfs", "numpy"]),
        (["--squash=e.sqsh", "v"], ["--squash=e.sqsh", "v"]),
        (["--squash", "--json"], ["--squash=", "--json"]),
        (["v", "--", "--squash"], ["v", "--", "--squash"]),
    ],
)
def test_the_word_behind_squash_is_its_file_only_where_it_names_an_image(words: list[str], image: list[str]) -> None:
    assert _with_image(words) == image


def test_help_of_the_command_and_of_its_verbs(cli: Callable[..., Answer]) -> None:
    assert "Usage: uenvtool venv [OPTIONS] [PATH] [PACKAGE]..." in cli("venv", "--help").stdout
    assert "Usage: uenvtool venv info [OPTIONS] {IMAGE|PATH}" in cli("venv", "info", "--help").stdout
    assert "Usage: uenvtool venv unpack [OPTIONS] {IMAGE} [PATH]" in cli("venv", "unpack", "--help").stdout


def test_an_unknown_option_is_a_usage_error(cli: Callable[..., Answer]) -> None:
    assert cli("venv", "--sqash").code == 2
    assert cli("venv", "info").code == 2

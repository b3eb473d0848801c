"""Test that messages link to documentation pages if a site publishes the documentation, and only then."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable

import pytest

from tests.conftest import Cli, Write
from tests.support.terminals import Terminal
from uenvtool.cli import run

SCRIPT = "#!/bin/bash\nset -x cat $0\n"
LOG = "Address already in use: port: 29500, code: -98, name: EADDRINUSE, message: address already in use\n"
TOP = "https://docs.example.org/uenvtool"
RULE, FINDING, VARIABLE = (
    f"{TOP}/reference/{page}.html" for page in ("rules/set-x-cat", "findings/address-in-use", "variables/NCCL_PROTO")
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Runs a command on a terminal, and gives what it shows there."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR")

    def call(line: str) -> str:
        with contextlib.redirect_stdout(Terminal()) as shown:
            run(line.split())
        return shown.text

    return call


def linked(address: str, text: str) -> re.Pattern[str]:
    """As a terminal reads it (https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda)."""
    link, styles = "\x1b]8;", "(\x1b\\[[0-9]*m)*"
    return re.compile(rf"{link}id=\d+;{re.escape(address)}\x1b\\{styles}{re.escape(text)}\s*{styles}{link};\x1b\\")


def test_on_a_terminal_an_id_is_a_link_to_its_page(
    terminal: Callable[[str], str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("job.sh", SCRIPT)
    write("job.out", LOG)
    monkeypatch.setenv("UENVTOOL_DOCS", f"{TOP}/")

    assert linked(RULE, "warning[set-x-cat]").search(terminal("check job.sh"))
    assert linked(FINDING, "address-in-use").search(terminal("doctor job.out"))


def test_what_says_all_and_what_programs_read_has_the_address(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("job.sh", SCRIPT)
    write("job.out", LOG)
    monkeypatch.setenv("UENVTOOL_DOCS", TOP)

    explained = cli("explain", "set-x-cat", "address-in-use", "NCCL_PROTO").stdout

    assert [line.split()[-1] for line in explained.splitlines() if TOP in line] == [RULE, FINDING, VARIABLE]
    assert FINDING in cli("doctor", "job.out", "--verbose").stdout
    assert json.loads(cli("doctor", "job.out", "--json").stdout)["findings"][0]["page"] == FINDING
    assert json.loads(cli("check", "job.sh", "--json").stdout)[0]["page"] == RULE


@pytest.mark.parametrize("address", [None, "", "docs.example.org", "file:///etc", "https://a b", "https://a\x1b]8;;b"])
def test_without_the_address_of_a_site_nothing_is_linked(
    cli: Cli, terminal: Callable[[str], str], write: Write, monkeypatch: pytest.MonkeyPatch, address: str | None
) -> None:
    write("job.sh", SCRIPT)
    if address is not None:
        monkeypatch.setenv("UENVTOOL_DOCS", address)

    assert "]8;" not in terminal("check job.sh")
    assert json.loads(cli("check", "job.sh", "--json").stdout)[0]["page"] is None
    assert "page:" not in cli("explain", "set-x-cat").stdout


def test_a_rule_of_ones_own_has_no_page(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "{severity: hint, look: [{line: tee}], what: w, cost: c, fix: f, source: s}"
    write("rules/mine.yaml", f"description: Ours.\nrules:\n  no-tee: {rule}\n")
    monkeypatch.setenv("UENVTOOL_DOCS", TOP)

    assert json.loads(cli("explain", "no-tee", "--json").stdout)[0]["page"] is None

"""Test that a runtime needs only one file, which scripts, formats and messages use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support.shells import ALL, run
from uenvtool.knowledge.kinds import RUNTIME as KIND
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.runtime import load_runtime

RUNTIME = """\
description: A box of ours.
container: true
signs: [{env: IN_BOX}, {file: /etc/box}]
libraries: system
forms: [dotenv]
"""
TUNING = """\
description: Ours.
sources: {ours: {title: a page of ours, date: 2026-01, url: "https://example.org"}}
variables:
  BOXED:
    type: flag
    says: {ours: 1}
    settings: [{value: 1, when: runtime == box, reason: it is boxed, source: ours}]
"""


@pytest.fixture
def box(write: Write) -> None:
    """A runtime, tuning for it, and a system that has it beside uenv."""
    write("runtimes/box.yaml", RUNTIME)
    write("tuning/boxes.yaml", TUNING)
    write(
        "systems/mine.yaml",
        "extends: clariden\ndescription: Ours.\nruntimes: [uenv, box]\n"
        "tuning: [slingshot, mpich, openmpi, nvshmem, cuda, boxes]\n",
    )


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("shell", [param for param in ALL if param.values[0] != "bash-4.2"])
def test_a_new_runtime_is_seen_by_its_variable_and_by_its_file(cli: Cli, place: Path, shell: str) -> None:
    (place / "script").write_text(cli("activate", "--system", "mine", "--shell", shell).stdout)
    (place / "root" / "etc").mkdir(parents=True)
    (place / "root" / "etc" / "box").touch()
    lines = f"source {place}/script\nSNAP\n"
    uenv = {"UENV_VIEW": "/nowhere:pytorch:default"}

    outside = run(shell, lines, uenv).env
    by_variable = run(shell, lines, {**uenv, "IN_BOX": "1"}).env
    by_file = run(shell, lines, {**uenv, "UENVTOOL_ROOT": str(place / "root")}).env

    assert ("BOXED" in outside, "NCCL_NET" in outside) == (False, True)
    for inside in (by_variable, by_file):
        assert (inside["BOXED"], "NCCL_NET" in inside) == ("1", False)


@pytest.mark.usefixtures("box")
def test_a_new_runtime_reads_the_forms_that_its_file_names(cli: Cli) -> None:
    dotenv = cli("activate", "--system", "mine", "--shell", "dotenv").stdout

    assert "BOXED='1'" in dotenv
    assert "For box: A box of ours." in dotenv


def test_the_runtimes_say_what_shows_them() -> None:
    assert {name for name in available(KIND) if not load_runtime(name).signs} == {"none", "local"}

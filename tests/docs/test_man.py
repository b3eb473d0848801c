"""Test the man pages: one per command, generated from the commands, and valid for the real programs."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import ROOT
from uenvtool.cli import contexts

pytestmark = pytest.mark.real
COMPLAINTS = re.compile(r".*missing date.*\n")
"""The header of every page. It has no date, so that the same source gives the same wheel."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man") / "man1"
    subprocess.run([sys.executable, ROOT / "tools/man.py", folder], check=True, capture_output=True)
    return folder


def read(page: Path | str, *words: str | Path, **env: str) -> str:
    wanted = ["man", *map(str, words), str(page)]
    more = {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", **env}
    done = subprocess.run(wanted, capture_output=True, text=True, check=False, env={**os.environ, **more})
    assert (done.returncode, done.stderr) == (0, ""), page
    return " ".join(done.stdout.split())


def test_every_command_and_verb_has_a_page(pages: Path) -> None:
    wanted = {context.command_path.replace(" ", "-") for context in contexts()}

    assert {page.stem for page in pages.iterdir()} == wanted
    assert {"uenvtool", "uenvtool-check", "uenvtool-image-build", "uenvtool-attach"} <= wanted


def test_man_shows_what_the_options_are_as_they_are_typed(pages: Path) -> None:
    text = read(pages / "uenvtool-job.1", "-l")

    assert "NAME uenvtool-job - Write and submit a tuned multi-node job" in text
    assert "-N, --nodes N The number of nodes or pods." in text
    assert "SEE ALSO uenvtool(1)" in text


def test_man_finds_a_page_by_its_name_beside_the_program(pages: Path) -> None:
    assert "uenvtool-venv(1) Install Python packages on top of a uenv" in read("uenvtool", MANPATH=str(pages.parent))


def test_mandoc_has_no_complaint(pages: Path) -> None:
    found = [
        subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True, check=False).stdout
        for page in sorted(pages.iterdir())
    ]

    assert COMPLAINTS.sub("", "".join(found)) == ""


def test_a_text_that_roff_would_obey_is_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))

    assert importlib.import_module("man")._text(r".so /etc/x \n -a") == r"\&.so /etc/x \en \-a"

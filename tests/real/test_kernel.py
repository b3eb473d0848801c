"""Test notebooks in a packed and an unpacked overlay, with a kernel that loads the base with the real uenv client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.real.test_uenv import Stack, stack, uenvtool
from tests.support.index import environment, fail_or_skip_without_index
from tests.support.needs import needs, skip_without
from tests.support.pythons import newest
from tests.support.samples import sampled

__all__ = ["stack", "uenvtool"]
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm"), *needs("mksquashfs")]
CELL = (
    "import inbase, tool, subprocess, sys, os\n"
    "out = subprocess.run(['python', '-c', 'import tool; print(tool.__version__)'], capture_output=True, text=True)\n"
    "print(tool.__version__, inbase.__version__, out.stdout.strip(), sys.prefix == os.environ['VIRTUAL_ENV'])"
)
NOTEBOOK = """\
import sys, nbclient, nbformat
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(sys.argv[1])])
nbclient.NotebookClient(notebook, kernel_name="mine", timeout=120).execute()
print(notebook.cells[0].outputs[0]["text"])
"""


def get_ipykernel(folder: Path, version: str) -> None:
    """Download the wheels of ipykernel for a Python, or skip the test without NOTEBOOK or an index."""
    if find_spec("nbclient") is None:
        skip_without("a client of notebooks", "pip install nbclient ipykernel")
    words = [sys.executable, "-m", "pip", "download", "-q", "-d", folder, "--python-version", version]
    words += ["--only-binary=:all:", "ipykernel"]
    got = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
    if got.returncode != 0:
        fail_or_skip_without_index(got.stderr)


@pytest.fixture
def with_ipykernel(stack: Stack) -> Stack:
    """Provides the wheels of ipykernel like an index."""
    get_ipykernel(stack.wheels, newest())
    return stack


@pytest.mark.parametrize("packed", sampled([True, False]))
def test_a_notebook_imports_from_the_overlay_and_the_base(
    with_ipykernel: Stack, uenvtool: list[str], place: Path, packed: bool
) -> None:
    squash = ("--squash", "--mount", with_ipykernel.tools) if packed else ()
    made = with_ipykernel.run(
        *(*uenvtool, "venv", "mine", "tool==2.0", "ipykernel", "--uenv", with_ipykernel.image, *squash)
    )
    assert made.returncode == 0, made.stderr
    added = with_ipykernel.run(*uenvtool, "kernel", "add", "mine.squashfs" if packed else "mine", "--name", "Mine")
    assert added.returncode == 0, added.stderr
    data = Path(os.environ["HOME"], ".local/share/jupyter/kernels/mine/kernel.json")
    assert json.loads(data.read_text())["display_name"] == "Mine"

    beside = with_ipykernel.run(sys.executable, "-c", NOTEBOOK, CELL)

    assert beside.stdout.strip() == "2.0 1.0 2.0 True", beside.stderr
    loaded, views = str(with_ipykernel.image), "--view=default"
    if packed:
        loaded, views = f"{loaded},{place}/mine.squashfs", f"{views},mine:venv"
    inside = with_ipykernel.run("uenv", "run", loaded, views, "--", sys.executable, "-I", "-c", NOTEBOOK, CELL)
    assert inside.stdout.strip() == "2.0 1.0 2.0 True", inside.stderr  # as a hub does that loads it: uenv nests none

"""Kernels of Jupyter: made for an overlay; another tool's stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import install, wheel


@pytest.fixture
def kernels(loaded: Loaded, wheels: Path, place: Path, tmp_path: Path) -> Path:
    """A base that has ipykernel; the folder of kernels."""
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "ipykernel", "6.0"))
    wheel(wheels, "small", "1.0")
    return tmp_path / "home/.local/share/jupyter/kernels"


def test_a_kernel_loads_the_base_of_its_overlay(kernels: Path, cli: Cli, place: Path) -> None:
    cli("venv", "v", "small")

    added = cli("kernel", "add", "v", "--name", "My-Kernel", "--json")

    assert added.code == 0, added.stderr
    kernel = json.loads((kernels / "my-kernel" / "kernel.json").read_text())
    assert kernel["metadata"]["uenvtool"] == {"overlay": str(place / "v")}
    assert kernel["argv"][2] == (
        "[[ ${UENV_MOUNT_LIST-}${UENV_VIEW-} ]] || "
        'exec uenv run /images/stack.squashfs --view=default -- "$@"; exec "$@"'
    )
    assert kernel["argv"][-5:] == ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert json.loads(added.stdout)["argv"] == kernel["argv"]
    assert cli("kernel", "add", "v", "--name", "My-Kernel").code == 0  # again


def test_another_tools_kernel_is_not_replaced(kernels: Path, cli: Cli) -> None:
    (kernels / "v").mkdir(parents=True)
    (kernels / "v" / "kernel.json").write_text("{}")
    cli("venv", "v", "small", "ipykernel")

    added = cli("kernel", "add", "v")

    assert added.code == 2
    assert "another tool made the kernel v" in added.stderr
    assert (kernels / "v" / "kernel.json").read_text() == "{}"


def test_an_overlay_without_ipykernel_makes_none_and_says_how_to_get_it(
    kernels: Path, cli: Cli, loaded: Loaded, place: Path
) -> None:
    site = next(place.parent.glob("base/**/site-packages"))
    for path in site.glob("ipykernel*"):
        subprocess.run(["rm", "-r", path], check=True)
    cli("venv", "v", "small")

    answer = cli("kernel", "add", "v", "--name", "n")

    assert answer.code == 4
    assert "starts no kernel: ModuleNotFoundError: No module named 'ipykernel'" in answer.stderr
    assert "hint: `uenvtool venv v ipykernel`" in answer.stderr
    assert not kernels.exists()


def test_a_shell_runs_one_command_in_an_overlay(kernels: Path, cli: Cli, place: Path) -> None:
    cli("venv", "v", "small")
    words = [
        "python",
        "-c",
        "import os, small, ipykernel, sys; print(small.__version__, sys.prefix, os.environ['VIRTUAL_ENV'])",
    ]

    ran = subprocess.run(
        [sys.executable, "-m", "uenvtool", "shell", "v", "--", *words], capture_output=True, text=True, check=False
    )

    assert ran.stdout.split() == ["1.0", str(place / "v"), str(place / "v")], ran.stderr

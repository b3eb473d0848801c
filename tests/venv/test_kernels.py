"""Test Jupyter kernels for overlays, and that kernels of other tools stay."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BaseHere, install, run, wheel
from tests.venv.conftest import Begun


@pytest.fixture
def tmp_path(begun: Begun) -> Path:
    return begun.emptied()


@pytest.fixture
def kernels(here: BaseHere, wheels: Path, place: Path, done: Cli, begun: Begun) -> Path:
    """An overlay on a base that has ipykernel; the folder of kernels."""

    def make() -> None:
        install(here.site, wheel(place.parent / "old", "ipykernel", "6.0"))
        wheel(wheels, "small", "1.0")
        done("venv", "v", "small")

    begun.fill(make)
    return place.parent / "home/.local/share/jupyter/kernels"


def test_a_kernel_loads_the_base_of_its_overlay(kernels: Path, done: Cli, place: Path) -> None:
    added = done("kernel", "add", "v", "--name", "My-Kernel", "--json")

    kernel = json.loads((kernels / "my-kernel" / "kernel.json").read_text())
    assert kernel["metadata"]["uenvtool"] == {"overlay": str(place / "v")}
    assert kernel["argv"][2] == (
        "[[ ${UENV_MOUNT_LIST-}${UENV_VIEW-} ]] || "
        'exec uenv run /images/stack.squashfs --view=default -- "$@"; exec "$@"'
    )
    assert kernel["argv"][-5:] == ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert json.loads(added.stdout)["argv"] == kernel["argv"]
    done("kernel", "add", "v", "--name", "My-Kernel")  # again
    shown = done("kernel", "add", "v", "--name", "My env (torch 2.6)")
    assert (
        json.loads((kernels / "my-env-torch-2.6" / "kernel.json").read_text())["display_name"] == "My env (torch 2.6)"
    )
    assert "remove it with `jupyter kernelspec remove my-env-torch-2.6`" in shown.stderr


def test_another_tools_kernel_is_not_replaced(kernels: Path, cli: Cli) -> None:
    (kernels / "v").mkdir(parents=True)
    (kernels / "v" / "kernel.json").write_text("{}")

    added = cli("kernel", "add", "v")

    assert added.code == 2
    assert "another tool made the kernel 'v'" in added.stderr
    assert (kernels / "v" / "kernel.json").read_text() == "{}"


def test_an_overlay_without_ipykernel_makes_none_and_says_how_to_get_it(
    kernels: Path, here: BaseHere, cli: Cli
) -> None:
    for path in here.site.glob("ipykernel*"):
        shutil.rmtree(path)
    cli("venv", "v", "--update")

    answer = cli("kernel", "add", "v", "--name", "n")

    assert (answer.code, kernels.exists()) == (4, False)
    assert "cannot start a kernel: ModuleNotFoundError: No module named 'ipykernel'" in answer.stderr
    assert "hint: install it with `uenvtool venv v ipykernel`" in answer.stderr


def test_a_shell_runs_one_command_in_an_overlay(kernels: Path, place: Path) -> None:
    code = "import os, small, ipykernel, sys; print(small.__version__, sys.prefix, os.environ['VIRTUAL_ENV'])"

    ran = run([sys.executable, "-m", "uenvtool", "shell", "v", "--", "python", "-c", code], os.environ)

    assert ran.stdout.split() == ["1.0", str(place / "v"), str(place / "v")], ran.stderr

"""Test `uenvtool venv` and `kernel` in a real container that mounts the directory of uenvtool.

buildah stands in for the Container Engine and, by a program of that name, for Apptainer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.real.test_kernel import NOTEBOOK, get_ipykernel
from tests.support.images import Builder, debian_image
from tests.support.overlays import wheel
from tests.support.programs import program

pytestmark = [pytest.mark.real, pytest.mark.slow]
TORCH = "2.8.0a0+nv25.6"
UENVTOOL = (sys.executable, "-m", "uenvtool")
APPTAINER = """\
#!/bin/bash
# apptainer exec --nv -B FOLDER IMAGE COMMAND...
echo "$*" >{log}
[[ "$1 $2 $3 $5" == "exec --nv -B docker://nvcr.io/nvidia/pytorch:25.06-py3" && -d $4 ]] || exit 9
shift 5
exec {engine} "$@"
"""
CELL = (
    "import tool, torch, sys, os; print(tool.__version__, torch.__version__, sys.prefix == os.environ['VIRTUAL_ENV'])"
)


@pytest.fixture
def engine(builder: Builder, no_base: None, tmp_path: Path, place: Path) -> Iterator[Callable[..., Path]]:
    """Returns a program that runs a command in a Debian container with torch, with additional variables.

    Packages come from the folder `wheels`, which has `tool` and a newer torch.
    """
    image = debian_image(builder, wheel(tmp_path / "base", "torch", TORCH))
    wheels = tmp_path / "wheels"
    wheel(wheels, "tool", "2.0", requires=["torch>=2.1"])
    wheel(wheels, "torch", "2.9.0")
    made = subprocess.run([*builder.words, "from", image], capture_output=True, text=True, check=True).stdout.strip()
    mounts = (tmp_path, sys.base_prefix, Path(sys.prefix).resolve(), ROOT)

    def start(**variables: str) -> Path:
        given = {"HOME": tmp_path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels, **variables}
        options = ["--network=host", f"--workingdir={place}", *(f"--volume={path}:{path}" for path in mounts)]
        options += [f"--env={name}={value}" for name, value in given.items()]
        words = [*builder.words, "run", "--isolation=chroot", *options, made, "--"]
        return program(place / "bin" / "engine", f'exec {" ".join(words)} "$@"')

    yield start
    subprocess.run([*builder.words, "rm", made], capture_output=True, check=True)


def run(*words: str | Path, env: dict[str, str] | None = None) -> str:
    """Return the output of a command that must succeed."""
    ran = subprocess.run(list(map(str, words)), env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_an_overlay_is_made_on_the_containers_python_and_keeps_its_torch(
    engine: Callable[..., Path], place: Path
) -> None:
    inside = engine(container="ce")

    run(inside, *UENVTOOL, "venv", place / "env", "tool")

    code = "import tool, torch; print(tool.__file__, torch.__version__)"
    where, torch = run(inside, place / "env/bin/python", "-c", code).split()
    assert where.startswith(f"{place}/env/lib/")
    assert torch == TORCH


def test_a_kernel_of_a_container_starts_beside_it_and_in_it(
    engine: Callable[..., Path], tmp_path: Path, place: Path
) -> None:
    get_ipykernel(tmp_path / "wheels", run("/usr/bin/python3", "--version").split()[1])
    inside, log = engine(NVIDIA_PYTORCH_VERSION="25.06"), tmp_path / "log"
    apptainer = program(place / "bin" / "apptainer", APPTAINER.format(engine=inside, log=log))
    beside = {**os.environ, "HOME": str(tmp_path), "PATH": f"{apptainer.parent}:{os.environ['PATH']}"}

    run(inside, *UENVTOOL, "venv", "mine", "tool", "ipykernel")
    run(inside, *UENVTOOL, "kernel", "add", "mine", "--name", "Mine")
    kernel = json.loads((tmp_path / ".local/share/jupyter/kernels/mine/kernel.json").read_text())
    seen_inside = run(inside, sys.executable, "-c", NOTEBOOK, CELL)
    started_inside = log.exists()
    start = kernel["argv"][: kernel["argv"].index("-m")]  # the stand-in takes no signals and no sockets: one command
    seen_beside = run(*start, "-c", CELL, env=beside)
    editor = run(place / "mine/bin/python-on-base", "-c", "import torch; print(torch.__version__)", env=beside)

    assert kernel["display_name"] == "Mine"
    assert seen_inside == seen_beside == f"2.0 {TORCH} True"
    assert not started_inside  # no container starts in another
    assert editor == TORCH

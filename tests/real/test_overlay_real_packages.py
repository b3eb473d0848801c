"""Test real packages on a base with torch, and whether `pip check` accepts the result."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import Answer, Cli
from tests.real.test_job_slurm import torch_python
from tests.support.index import SETTINGS, fail_or_skip_without_index
from tests.support.needs import skip_without
from tests.support.overlays import BaseHere, base, clean_environment, install, run, wheel
from tests.support.project import REAL_HOME
from tests.support.pythons import newest, pythons
from tests.support.samples import sampled

pytestmark = [pytest.mark.real, pytest.mark.slow]
VENDORS = "2.6.0a0+d883142"
TORCH_2_6 = (  # Requires-Dist of torch 2.6.0 on PyPI for this platform, with the ones of its CUDA libraries
    "filelock",
    "typing-extensions>=4.10.0",
    "networkx",
    "jinja2",
    "fsspec",
    "nvidia-cuda-nvrtc-cu12==12.4.127 ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "nvidia-cublas-cu12==12.4.5.8 ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "nvidia-nccl-cu12==2.21.5 ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "triton==3.2.0 ; platform_system == 'Linux' and platform_machine == 'x86_64'",
    "setuptools ; python_version >= '3.12'",
    "sympy==1.13.1 ; python_version >= '3.9'",
    "opt-einsum>=3.3 ; extra == 'opt-einsum'",
)
IN_BASE = (
    *("numpy==1.26.4", "typing-extensions", "filelock", "networkx", "jinja2", "fsspec", "setuptools"),
    *("packaging==23.2", "sympy==1.13.1", "pyyaml", "idna==3.4"),
)
FORBIDDEN = re.compile(r"(torch|triton|pytorch_triton|nvidia_.*|cuda_.*)-[0-9]")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> BaseHere:
    """Returns a base like a vendor's: numpy 1, libraries, and a stand-in for torch with the real metadata."""
    version = "3.12" if "3.12" in pythons() else newest()  # for 3.12 every package here has wheels
    folder = tmp_path_factory.mktemp("stack")
    here = base(folder, "pythonpath", pythons()[version], version)
    got = run(
        [uv(), "pip", "install", "--quiet", "--python", pythons()[version], "--target", here.site, *IN_BASE],
        clean_environment(**SETTINGS, UV_LINK_MODE="copy"),
    )
    if got.returncode != 0:
        fail_or_skip_without_index(got.stderr)
    torch = {"torch/__init__.py": f"__version__ = {VENDORS!r}\n"}
    install(here.site, wheel(folder, "torch", VENDORS, requires=TORCH_2_6, extras=("opt-einsum",), files=torch))
    return here


@pytest.fixture
def of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the package index of the user who runs the tests."""
    for name, value in {**SETTINGS, "HOME": str(REAL_HOME)}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def loaded_stack(stack: BaseHere, of_the_user: None, monkeypatch: pytest.MonkeyPatch) -> BaseHere:
    for name, value in stack.environment.items():
        monkeypatch.setenv(name, value)
    return stack


def installed(answer: Answer, place: Path) -> list[str]:
    """Return the packages that a command installed into the overlay v, after a test that torch is not among them."""
    if answer.code != 0:
        fail_or_skip_without_index(answer.stderr)
    found = [path.name for path in place.glob("v/lib/python3*/site-packages/*.dist-info")]
    assert not [name for name in found if FORBIDDEN.match(name)]
    return found


def uv() -> str:
    from uv import find_uv_bin

    return os.fspath(find_uv_bin())


SETS = [
    "torchmetrics", "lightning", "metatrain", "accelerate", "transformers datasets", "torch_geometric",
    "matplotlib pandas scipy", "peft evaluate", "numpy>=2 h5py", "wandb hydra-core", "einops timm requests",
    "idna>=3.7 httpx",
]  # fmt: skip


@pytest.mark.parametrize("wanted", sampled(SETS))
def test_a_real_set_fits_its_base_and_brings_no_second_torch(
    loaded_stack: BaseHere, cli: Cli, wanted: str, place: Path
) -> None:
    assert installed(cli("venv", "v", *wanted.split()), place)

    env = clean_environment(**loaded_stack.environment)
    assert unmet_by_pip(place / "v", env) == []


def unmet_by_pip(folder: Path, env: dict[str, str]) -> list[str]:
    """Return the output of `pip check` in the overlay, without the lines on the vendor's torch."""
    pip = next(iter(Path(sys.prefix).glob("lib/python3*/site-packages/pip")), None)
    if pip is None:
        skip_without("pip", "python -m ensurepip")
    bare = folder.parent / "only-pip"
    bare.mkdir()
    (bare / "pip").symlink_to(pip)
    words = [folder / "bin" / "python", "-m", "pip", "check"]
    said = run(words, {**env, "PYTHONPATH": os.pathsep.join([env["PYTHONPATH"], str(bare)])}).stdout
    lines = [line for line in said.splitlines() if line and line != "No broken requirements found."]
    return [line for line in lines if not line.startswith("torch ") and f"you have torch {VENDORS}" not in line]


@pytest.mark.parametrize(("wanted", "code"), [(["h5py==3.10.0"], 0), (["h5py==3.10.0", "numpy>=2"], 1)])
def test_a_real_wheel_built_for_numpy_1_is_told_from_its_binary(
    loaded_stack: BaseHere, cli: Cli, wanted: list[str], code: int
) -> None:
    answer = cli("venv", "v", *wanted)

    if answer.code != code:
        fail_or_skip_without_index(answer.stderr)
    assert ("h5py 3.10.0 is built for numpy 1" in answer.stderr) == bool(code)


@pytest.mark.nightly
def test_the_real_torch_of_a_base_stays_and_starts_workers_with_the_overlay(
    of_the_user: None, cli: Cli, place: Path
) -> None:
    assert installed(cli("venv", "v", "torchmetrics", "idna", "--base", torch_python()), place)
    (place / "work.py").write_text(
        "import os, sys, torch, torch.distributed as dist, torchmetrics\n"
        "dist.init_process_group('gloo'); t = torch.ones(1); dist.all_reduce(t)\n"
        "line = f\"rank {os.environ['RANK']} {t.item()} {sys.prefix} {torchmetrics.__file__}\\n\"\n"
        "os.write(1, line.encode())\n"  # at once: both ranks write to one pipe
    )

    for start in (["v/bin/python", "-m", "torch.distributed.run"], ["v/bin/torchrun"]):
        done = run([*start, "--nproc-per-node=2", "--standalone", "work.py"], clean_environment())

        lines = [line.split() for line in done.stdout.splitlines() if line.startswith("rank")]
        assert sorted(line[1] for line in lines) == ["0", "1"], done.stderr
        for line in lines:
            assert line[2:4] == ["2.0", str(place / "v")]
            assert line[4].startswith(str(place / "v"))

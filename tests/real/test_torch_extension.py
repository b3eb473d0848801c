"""Test that a torch extension is built against the base's torch, and that one for another torch is rejected."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.real.test_job_slurm import torch_python
from tests.support.overlays import clean_environment, run, wheel

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.nightly]
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
module = CppExtension("tinyop", ["tinyop.cpp"], extra_compile_args=["-O0", "-g0"])
setup(name="tinyop", version="1.0", install_requires=["torch"], ext_modules=[module],
      cmdclass={"build_ext": BuildExtension})
"""
CODE = """
#include <Python.h>
#include <ATen/ATen.h>
#include <torch/library.h>
static at::Tensor twice(const at::Tensor& x) { return x + x; }
TORCH_LIBRARY(tinyop, m) { m.def("twice", twice); }
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "tinyop", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit_tinyop(void) { return PyModule_Create(&module); }
"""
USE = "import torch, tinyop; print(torch.ops.tinyop.twice(torch.ones(2)).tolist())"


@pytest.fixture
def python() -> str:
    return torch_python()


@pytest.fixture
def source(wheels: Path) -> Path:
    """Returns the extension as a source archive in the index."""
    texts = {"setup.py": SETUP, "tinyop.cpp": CODE, "PKG-INFO": "Metadata-Version: 2.1\nName: tinyop\nVersion: 1.0\n"}
    path = wheels / "tinyop-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"tinyop-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def used(folder: str) -> str:
    return run([f"{folder}/bin/python", "-c", USE], clean_environment()).stdout.strip()


def test_an_extension_is_built_on_the_bases_torch_and_made_again(
    no_base: None, cli: Cli, source: Path, python: str
) -> None:
    made = cli("venv", "v", "--base", python, "--no-build-isolation", "tinyop")
    again = cli("venv", "w", "--base", python, "--from", "v/.uenvtool/pylock.toml")
    updated = cli("venv", "v", "--update")

    assert [made.code, again.code, updated.code] == [0, 0, 0], made.stderr + again.stderr + updated.stderr
    assert used("v") == used("w") == used("v.previous") == "[2.0, 2.0]"
    assert json.loads(cli("show", "w", "--json").stdout)["built_on_base"] == ["tinyop"]
    installed = [path.name for path in Path("v").glob("lib/python3*/site-packages/*.dist-info")]
    assert installed == ["tinyop-1.0.dist-info"]  # the tools of the build are not in it


def test_a_module_that_a_real_torch_cannot_load_is_a_conflict(
    no_base: None, cli: Cli, wheels: Path, place: Path, python: str
) -> None:
    """The module uses a function that torch 2.13 does not have, and is linked with the real libraries."""
    found = run([python, "-c", "import torch; print(torch.__path__[0])"], clean_environment())
    torch_lib = Path(found.stdout.strip(), "lib")
    module = place / "_C.so"
    code = "void _ZN3c1018of_another_releaseEv(void); void PyInit__C(void) { _ZN3c1018of_another_releaseEv(); }"
    words = ["gcc", "-shared", "-fPIC", "-Wl,-z,now", "-Wl,--no-as-needed", "-xc", "-", "-o", str(module)]
    subprocess.run([*words, f"-L{torch_lib}", "-lc10", "-ltorch_cpu", "-ltorch"], input=code, text=True, check=True)
    wheel(wheels, "ext", "1.0", files={"ext/_C.so": module.read_bytes()}, requires=("torch",))

    answer = cli("venv", "v", "ext", "--base", python)
    loaded = run([python, "-c", f"import ctypes, torch; ctypes.CDLL({str(module)!r})"], clean_environment())

    assert "undefined symbol: _ZN3c1018of_another_releaseEv" in loaded.stderr  # the loader says the same
    assert answer.code == 1
    assert "_C.so uses c10::of_another_release" in answer.stderr

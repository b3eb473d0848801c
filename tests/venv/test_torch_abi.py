"""What was compiled for another torch, or another CUDA, does not come onto the base's."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.needs import skip_without
from tests.support.overlays import BaseHere, install, wheel
from uenvtool.venv.compiled import readable

HELLO = "_ZN3c105helloEv"
BYE = "_ZN3c103byeEv"


def library(path: Path, code: str, *links: str | Path) -> Path:
    """A shared library of C code, with its own name inside."""
    if shutil.which("gcc") is None:
        skip_without("gcc", "apt-get install gcc")
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-Wl,--no-as-needed", "-xc", "-", "-o", path]
    subprocess.run([str(word) for word in [*words, "-xnone", *links]], input=code, text=True, check=True)
    return path


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    """A base whose torch has two libraries, the one for CUDA 12."""
    found = loaded("pythonpath")
    install(found.site, wheel(place / "old", "torch", "2.6.0"))
    runtime = library(place / "libs" / "libcudart.so.12", "int cudart;")
    lib = found.site / "torch" / "lib"
    c10 = library(lib / "libc10.so", f"void {HELLO}(void) {{}}")
    library(lib / "libc10_cuda.so", "int cuda;", c10, runtime)
    return found


def extension(place: Path, wheels: Path, code: str, *links: Path, version: str = "1.0") -> None:
    """A wheel with one compiled module."""
    module = library(place / "made" / "ext.so", code, *links)
    tag = f"py3-none-linux_{platform.machine()}"
    wheel(wheels, "ext", version, files={"ext/_C.so": module.read_bytes()}, requires=("torch",), tag=tag)


def test_what_takes_only_what_the_bases_torch_has_is_installed(
    here: BaseHere, cli: Cli, place: Path, wheels: Path
) -> None:
    code = f"void {HELLO}(void); void f(void) {{ {HELLO}(); }}"
    lib = here.site / "torch" / "lib"
    extension(place, wheels, code, lib / "libc10.so", lib / "libc10_cuda.so", place / "libs" / "libcudart.so.12")

    answer = cli("venv", "v", "ext")

    assert answer.code == 0, answer.stderr


def test_a_symbol_that_the_bases_torch_does_not_have_is_a_conflict(
    here: BaseHere, cli: Cli, place: Path, wheels: Path
) -> None:
    extension(place, wheels, f"void {BYE}(void); void f(void) {{ {BYE}(); }}", here.site / "torch/lib/libc10.so")

    refused = cli("venv", "v", "ext")
    dry = cli("venv", "v", "ext", "--dry-run")
    accepted = cli("venv", "w", "ext", "--override", "ext")

    for answer in (refused, dry):
        assert answer.code == 1
        assert "ext 1.0 is compiled for another torch: _C.so takes c10::bye from it" in answer.stderr
        assert "the base has torch 2.6.0" in answer.stderr
        assert "--no-build-isolation ext" in answer.stderr
    assert not Path("v").exists()
    assert accepted.code == 0, accepted.stderr


def test_a_symbol_that_the_package_brings_itself_is_none_of_torchs(
    here: BaseHere, cli: Cli, place: Path, wheels: Path
) -> None:
    c10 = here.site / "torch" / "lib" / "libc10.so"
    own = library(place / "made" / "libown.so", f"void {BYE}(void) {{}}", c10)
    user = library(place / "made" / "user.so", f"void {BYE}(void); void f(void) {{ {BYE}(); }}", c10, own)
    files = {"ext/libown.so": own.read_bytes(), "ext/_C.so": user.read_bytes()}
    wheel(wheels, "ext", "1.0", files=files)

    assert cli("venv", "v", "ext").code == 0


@pytest.mark.parametrize(
    ("links", "version", "said"),
    [
        (["libc10.so", "libcudart.so.13"], "1.0", "_C.so is for CUDA 13, and that torch is for CUDA 12"),
        (["libc10.so"], "1.0+cu130", "its version names CUDA 13, and that torch is for CUDA 12"),
        (["libtorch_hip.so"], "1.0", "_C.so needs libtorch_hip.so, which that torch does not have"),
        (["libcudart.so.13"], "1.0", ""),  # it does not use torch
    ],
)
def test_a_library_of_another_torch_or_cuda_is_a_conflict(
    here: BaseHere, cli: Cli, place: Path, wheels: Path, links: list[str], version: str, said: str
) -> None:
    c10 = here.site / "torch" / "lib" / "libc10.so"
    libraries = [c10 if name == c10.name else library(place / "libs" / name, "int x;") for name in links]
    extension(place, wheels, "int f;", *libraries, version=version)

    answer = cli("venv", "v", "ext")

    assert answer.code == (1 if said else 0), answer.stderr
    assert said in answer.stderr


def of_many_torches(place: Path, wheels: Path, *releases: str) -> None:
    """A wheel with its library once for each release of torch, as metatensor-torch has it."""
    c10 = place.parent / "base" / "user-environment/env/default"
    (c10,) = c10.glob("lib/python3*/site-packages/torch/lib/libc10.so")
    files = {}
    for release in releases:
        symbol = HELLO if release == "2.6" else BYE
        code = f"void {symbol}(void); void f(void) {{ {symbol}(); }}"
        made = library(place / "made" / release / "libext.so", code, c10)
        files[f"ext/torch-{release}/lib/libext.so"] = made.read_bytes()
    wheel(wheels, "ext", "1.0", files=files, requires=("torch",))


def test_of_libraries_for_many_torches_the_one_for_this_torch_counts(
    here: BaseHere, cli: Cli, place: Path, wheels: Path
) -> None:
    of_many_torches(place, wheels, "2.5", "2.6", "2.7")

    answer = cli("venv", "torch-2.5/v", "ext")

    assert answer.code == 0, answer.stderr


def test_libraries_for_other_torches_alone_are_a_conflict(here: BaseHere, cli: Cli, place: Path, wheels: Path) -> None:
    of_many_torches(place, wheels, "2.9", "2.10")

    answer = cli("venv", "v", "ext")

    assert answer.code == 1
    assert "it has libraries for torch 2.9, 2.10 and none for 2.6; the base has torch 2.6.0" in answer.stderr


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (b"_ZN3c105ErrorC1ENS_14SourceLocationESs", "c10::Error"),
        (b"_ZNK2at10TensorBase4sizeEl", "at::TensorBase::size"),
        (b"_ZTVN5torch8autograd4NodeE", "torch::autograd::Node"),
        (b"_Z7THPFoobv", "THPFoob"),
        (b"aoti_torch_zeros", "aoti_torch_zeros"),
    ],
)
def test_a_symbol_is_shown_by_its_name_in_the_source(symbol: bytes, name: str) -> None:
    assert readable(symbol) == name

"""Test that modules compiled for another torch or CUDA are rejected."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.overlays import install, wheel
from tests.support.samples import slow
from uenvtool.venv.compiled import readable

HELLO = "_ZN3c105helloEv"
BYE = "_ZN3c103byeEv"


def library(path: Path, code: str, *links: str | Path) -> Path:
    """A shared library of C code, with its own name inside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-Wl,--no-as-needed", "-xc", "-", "-o", path]
    subprocess.run([str(word) for word in [*words, "-xnone", *links]], input=code, text=True, check=True)
    return path


def using(symbol: str) -> str:
    """C code that takes a symbol from elsewhere."""
    return f"void {symbol}(void); void f(void) {{ {symbol}(); }}"


def giving(symbol: str) -> str:
    return f"void {symbol}(void) {{}}"


@pytest.fixture
def lib(loaded: Loaded, wheels: Path, place: Path) -> Path:
    """The libraries of a base's torch, one of them for CUDA 12."""
    site = loaded("pythonpath").site
    install(site, wheel(place / "old", "torch", "2.6.0"))
    c10 = library(site / "torch/lib/libc10.so", giving(HELLO))
    runtime = library(place / "libs/libcudart.so.12", "int cudart;")
    return library(site / "torch/lib/libc10_cuda.so", "int cuda;", c10, runtime).parent


def extension(wheels: Path, libraries: dict[str, Path], version: str = "1.0") -> None:
    """A wheel with compiled modules."""
    tag = f"py3-none-linux_{platform.machine()}"
    files = {f"ext/{name}": path.read_bytes() for name, path in libraries.items()}
    wheel(wheels, "ext", version, files=files, requires=("torch",), tag=tag)


@pytest.mark.parametrize(
    ("code", "links", "version", "said"),
    [
        (using(HELLO), ["libc10.so", "libc10_cuda.so", "libcudart.so.12"], "1.0", ""),
        slow("int f;", ["libcudart.so.13"], "1.0", ""),  # it does not use torch
        (using(BYE), ["libc10.so"], "1.0", "another torch: _C.so uses c10::bye.* --no-build-isolation ext"),
        (
            "int f;",
            ["libc10.so", "libcudart.so.13"],
            "1.0",
            "_C.so is built for CUDA 13, but that torch is built for CUDA 12",
        ),
        slow("int f;", ["libc10.so"], "1.0+cu130", "its version names CUDA 13, but that torch is built for CUDA 12"),
        slow("int f;", ["libtorch_hip.so"], "1.0", "_C.so needs libtorch_hip.so, which that torch does not contain"),
    ],
)
def test_a_library_for_another_torch_or_cuda_is_a_conflict(
    lib: Path, cli: Cli, place: Path, wheels: Path, code: str, links: list[str], version: str, said: str
) -> None:
    linked = [lib / name if (lib / name).exists() else library(place / "libs" / name, "int x;") for name in links]
    extension(wheels, {"_C.so": library(place / "made" / "ext.so", code, *linked)}, version)

    if "bye" in said:
        dry = cli("venv", "v", "ext", "--dry-run")
        assert dry.code == 0
        assert "whether compiled modules fit the base's torch is known only after a real run" in dry.stderr
    answer = cli("venv", "v", "ext")

    assert answer.code == (1 if said else 0)
    assert re.search(said, answer.stderr, re.DOTALL)
    assert Path("v").exists() is not bool(said)
    if "bye" in said:
        assert cli("venv", "v", "ext", "--override", "ext").code == 0


def test_a_symbol_that_the_package_brings_itself_is_none_of_torchs(
    lib: Path, done: Cli, place: Path, wheels: Path
) -> None:
    own = library(place / "made" / "libown.so", giving(BYE), lib / "libc10.so")
    user = library(place / "made" / "user.so", using(BYE), lib / "libc10.so", own)
    extension(wheels, {"libown.so": own, "_C.so": user})

    done("venv", "v", "ext")


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        (["2.5", "2.6", "2.7"], ""),
        (["2.9", "2.10"], "it has libraries for torch 2.9, 2.10, but not for 2.6; the base has torch 2.6.0"),
    ],
)
def test_of_libraries_for_many_torches_the_one_for_this_torch_counts(
    lib: Path, cli: Cli, place: Path, wheels: Path, releases: list[str], said: str
) -> None:
    """As metatensor-torch has them: a folder for each release of torch."""
    made = {
        f"torch-{release}/lib/libext.so": library(
            place / "made" / release / "libext.so", using(HELLO if release == "2.6" else BYE), lib / "libc10.so"
        )
        for release in releases
    }
    extension(wheels, made)

    answer = cli("venv", "torch-2.5/v", "ext")

    assert answer.code == (1 if said else 0)
    assert said in answer.stderr


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

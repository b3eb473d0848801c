"""Test that real Spack installs a shipped recipe from its lock, and check each installed file."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import archspec.cpu
import pytest

from tests.support import peers
from tests.support.installed import COMPILER, Installed, installed_hello
from tests.support.needs import needs_solver
from uenvtool.env.installable import read_installable

pytestmark = [
    pytest.mark.real,
    pytest.mark.build,
    pytest.mark.usefixtures("mount_points"),
    pytest.mark.xdist_group("spack"),
    pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf: apt-get install binutils"),
    needs_solver,
]
MOUNT = "/user-environment"
OF_GLIBC = re.compile(r"(ld-linux[\w-]*|libc|libm|libdl|librt|libpthread|libutil|libresolv)\.so\.\d+")


@dataclass(frozen=True, kw_only=True)
class Elf:
    """A compiled file. needed: names of libraries. run_paths: directories that the loader searches."""

    path: Path
    needed: tuple[str, ...]
    run_paths: tuple[str, ...]


def elf_files(folder: Path) -> list[Elf]:
    """Yield every dynamically linked file in a directory, without symbolic links."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size < 64:
            continue
        with path.open("rb") as stream:
            if stream.read(4) != b"\x7fELF":
                continue
        shown = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        needed = tuple(re.findall(r"\(NEEDED\).*\[(.+)\]", shown))
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.+)\]", shown)
        run_paths = tuple(part for text in paths for part in text.split(":"))
        if needed or run_paths:
            found.append(Elf(path=path, needed=needed, run_paths=run_paths))
    return found


@pytest.fixture
def hello(monkeypatch: pytest.MonkeyPatch) -> Installed:
    monkeypatch.setenv("SPACK_PYTHON", sys.executable)
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(peers.spack_user()))
    return installed_hello()


def outside(path: str, store: Path) -> Path:
    """Return the path in the store for a path below the mount point."""
    return store / Path(path).relative_to(MOUNT)


def test_every_library_is_found_in_the_tree_or_is_the_c_library(hello: Installed) -> None:
    files = [file for file in elf_files(hello.store) if "/.uenvtool-install/" not in str(file.path)]

    assert {"pigz", "libzstd.so.1.5.6"} <= {file.path.name for file in files}
    lock = read_installable(hello.environment).lock
    prefixes = (MOUNT, *(package.external for package in lock.packages if package.name == "python"))
    for file in files:
        assert all(path.startswith(tuple(f"{prefix}/" for prefix in prefixes)) for path in file.run_paths), file
        for library in file.needed:
            in_tree = [outside(path, hello.store) for path in file.run_paths if path.startswith(f"{MOUNT}/")]
            places = [file.path.parent, *in_tree]  # the libraries of gcc-runtime lie beside each other
            here = any((place / library).exists() for place in places)
            assert here or OF_GLIBC.fullmatch(library), f"{file.path} needs {library}"


def test_a_program_is_linked_to_the_library_of_the_environment(hello: Installed) -> None:
    (pigz,) = [file for file in elf_files(hello.store) if file.path.name == "pigz"]
    (zlib,) = [name for name in pigz.needed if name.startswith("libz")]

    (place,) = [path for path in pigz.run_paths if (outside(path, hello.store) / zlib).exists()]

    assert "/zlib-ng-2.2.2-" in place


def test_packages_are_compiled_for_the_target_by_the_compiler_that_came_late(hello: Installed) -> None:
    target = archspec.cpu.host()
    compiled = [package.name for package in read_installable(hello.environment).lock.packages if package.compiled]

    assert {"pigz", "zlib-ng", "zstd", "py-markupsafe"} <= set(compiled)
    for name in compiled:
        (text,) = [path.read_text() for path in hello.store.glob(f"linux-*/{name}-*/.spack/spack-build-env.txt")]
        assert re.search(rf"SPACK_TARGET_ARGS_CC='?-march={march(target)}", text), name
        assert f"SPACK_CC={COMPILER}/bin/gcc" in text, name


def test_the_programs_and_the_extension_run_at_the_mount_point(hello: Installed) -> None:
    from uenvtool.env.install import MOUNTING

    view = f"{MOUNT}/env/default/bin"
    code = "import jinja2, markupsafe, markupsafe._speedups as c; print(markupsafe.__file__, jinja2.__version__, c)"

    def run(*command: str) -> str:
        words = [*MOUNTING, hello.store, MOUNT, *command]
        return subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout

    assert "pigz 2.8" in run(f"{view}/pigz", "--version")
    printed = run(f"{view}/python", "-c", code)
    assert printed.startswith(f"{MOUNT}/env/default/lib/")
    assert " 3.1.4 " in printed


def march(target: archspec.cpu.Microarchitecture) -> str:
    """Return GCC's name of a CPU target."""
    return str(target.optimization_flags("gcc", "12.2.0")).split("-march=")[1].split()[0]

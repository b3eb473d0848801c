"""The recipe `hello`, which real Spack installs once from uenvtool's lock, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import peers
from tests.support.made_once import made_once
from tests.support.needs import need
from tests.support.project import CACHE, ROOT
from uenvtool.cli import run
from uenvtool.env.install import InstallOptions, install
from uenvtool.env.installable import read_installable
from uenvtool.env.program import find_spack, repository_directory

COMPILER = CACHE / "late-compiler"
"""The directory of the compiler. It does not exist while Spack resolves, only when it installs."""
SYSTEM = """\
extends: local
description: This machine, with its compiler in another directory.
packages:
  gcc:
    externals:
    - spec: gcc@VERSION languages=c,c++
      prefix: PREFIX
      compilers: {c: PREFIX/bin/gcc, cxx: PREFIX/bin/g++}
"""
INPUTS = ("uenvtool/env", "uenvtool/knowledge", "recipes/hello", "knowledge/systems/local.yaml")


@dataclass(frozen=True, kw_only=True)
class Installed:
    """environment: the resolved environment. store: the content at the mount point of its image."""

    environment: Path
    store: Path


def installed_hello() -> Installed:
    """Return `hello` in a store, from this run or an earlier run with the same inputs. Do not change it."""
    need("gcc", "g++", "make", "perl")
    shown = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    version_of_gcc = shown.stdout.strip()
    spack, packages, sources = peers.SPACK.need(), peers.PACKAGES.need(), peers.SOURCES.need()

    def make(folder: Path) -> None:
        shutil.rmtree(COMPILER, ignore_errors=True)
        system = folder / "systems" / "late.yaml"
        system.parent.mkdir()
        system.write_text(SYSTEM.replace("VERSION", version_of_gcc).replace("PREFIX", str(COMPILER)))
        options = ["--spack", str(spack), "--repo", f"builtin={packages}", "-o", str(folder / "environment")]
        assert run(["build", "hello", "--system", str(system), *options]) == 0
        (COMPILER / "bin").mkdir(parents=True)
        for program in ("gcc", "g++"):
            (COMPILER / "bin" / program).symlink_to(os.path.realpath(str(shutil.which(program))))
        (folder / "store").mkdir()
        found = find_spack(spack)
        assert found is not None
        order = InstallOptions(
            jobs=2, repos={"builtin": repository_directory("builtin", packages)}, mirrors=(f"file://{sources}",)
        )
        install(found, read_installable(folder / "environment"), folder / "store", order)

    texts = [
        path
        for name in INPUTS
        for path in sorted((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])
    ]
    inputs = [path.read_text() for path in texts if path.suffix in {".py", ".yaml"}]
    folder = made_once("hello-installed", "\n".join([version_of_gcc, str(spack), str(packages), *inputs]), make)
    return Installed(environment=folder / "environment", store=folder / "store")

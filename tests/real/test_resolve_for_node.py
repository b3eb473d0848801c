"""Test that real Spack resolves for a node on another machine as it would on the node, and as any user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.real.conftest import RealSpack
from tests.support import peers
from tests.support.made_once import made_once
from tests.support.ordinary_user import give_to_ordinary_user, public_folder, run_as_ordinary_user
from tests.support.project import ROOT
from uenvtool.env.manifest import render_manifest
from uenvtool.env.plan import plan_environment
from uenvtool.env.resolve import SCRIPT
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.lock import Lock, read_lock, without_wrapper
from uenvtool.knowledge.place import choose

pytestmark = [pytest.mark.real, pytest.mark.build, pytest.mark.xdist_group("spack")]

ABSENT_COMPILER = """\
extends: local
description: This machine, but for its compiler.
packages:
  gcc:
    externals:
    - spec: gcc@VERSION languages=c,c++
      prefix: /opt/absent
      compilers: {c: /opt/absent/bin/gcc, cxx: /opt/absent/bin/g++}
"""
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a compiler: apt-get install gcc g++")


def lock_in(folder: Path | str) -> Lock:
    return read_lock(Path(folder) / "spack.lock", str(folder))


def resolved_by_spack_alone(real_spack: RealSpack) -> Lock:
    """Return the lock of `hello` that Spack itself creates for this machine and its compiler."""
    recipe = load_recipe("hello")
    choice = choose(recipe, "local", None)
    environment = plan_environment(recipe, choice.system, choice.uarch)
    manifest = render_manifest(environment, {"builtin": real_spack.builtin}, resolving=True)

    def resolve(into: Path) -> None:
        (into / "spack.yaml").write_text(manifest)
        command = [real_spack.program, "-e", into, "concretize", "--force", "--fresh"]
        subprocess.run(command, check=True, capture_output=True)

    return lock_in(made_once("resolved-by-spack-alone", manifest, resolve))


@needs_gcc
def test_the_system_files_answers_give_the_same_lock_as_the_node_itself(cli: Cli, real_spack: RealSpack) -> None:
    on_the_node = resolved_by_spack_alone(real_spack)

    answer = cli("build", "hello", "-o", "cross", *real_spack.options)

    assert answer.code == 0, answer.stderr
    assert set(lock_in("cross").packages) == set(on_the_node.packages)  # the hashes too
    assert cli("build", "hello", "-o", "cross", "--check").code == 0
    assert {"compiler-wrapper", "gcc-runtime", "glibc"} <= set(on_the_node.versions())


@needs_gcc
def test_neither_an_absent_compiler_nor_the_sites_configuration_changes_a_version_and_the_mount_point_stays(
    cli: Cli, real_spack: RealSpack, write: Write, tmp_path: Path
) -> None:
    here = resolved_by_spack_alone(real_spack)
    gcc = next(package for package in here.packages if package.name == "gcc")
    system = ABSENT_COMPILER.replace("VERSION", gcc.version)
    write("systems/elsewhere.yaml", f"{system}mount: {tmp_path}/mount\n")
    installed = write(str(tmp_path / "mount" / "env" / "default" / "bin" / "python"), "of the image")
    spack = tmp_path / "spack"
    shutil.copytree(real_spack.root, spack, symlinks=True, ignore=shutil.ignore_patterns(".git", "docs", "__pycache__"))
    for folder in (spack / "etc" / "spack", spack / "etc" / "spack" / "site"):
        (folder / "packages.yaml").write_text(
            "packages:\n  zlib-ng: {variants: ~compat}\n  python:: {buildable: true}\n"
        )

    answer = cli("build", "hello", "--system", "elsewhere", "-o", "absent", "--spack", spack, *real_spack.options[2:])

    assert answer.code == 0, answer.stderr
    assert lock_in("absent").versions() == here.versions()
    assert without_wrapper(lock_in("absent")) == []
    assert [path for path in (tmp_path / "mount").rglob("*") if path.is_file()] == [installed]


def test_an_ordinary_user_resolves_and_nothing_else_is_touched(real_spack: RealSpack) -> None:
    with public_folder() as folder:
        for name in ("home", "mount", "work", "cache"):
            (folder / name).mkdir()
        indexes = peers.spack_user() / "cache"
        if indexes.is_dir():
            shutil.copytree(indexes, folder / "cache" / "cache")
        (folder / "mount" / "env").mkdir()
        (folder / "work" / "systems").mkdir()
        (folder / "work" / "systems" / "mounted.yaml").write_text(
            f"extends: local\ndescription: This machine with an image.\nmount: {folder}/mount\n"
        )
        for name in ("home", "cache"):
            give_to_ordinary_user(folder / name)
        (folder / "mount").chmod(0o555)
        (folder / "mount" / "env").chmod(0o555)

        words = ["build", "hello", "--system", "mounted", "-o", "env", *real_spack.options]
        done = run_as_ordinary_user(
            [sys.executable, "-m", "uenvtool", *words],
            folder=folder / "work",
            env={
                "HOME": str(folder / "home"),
                "PYTHONPATH": str(ROOT),
                "SPACK_USER_CACHE_PATH": str(folder / "cache"),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )

        assert done.returncode == 0, done.stderr
        assert os.listdir(folder / "mount" / "env") == []


def test_a_python_without_clingo_is_told(cli: Cli, real_spack: RealSpack, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path("/usr/bin/python3")
    if not python.exists() or subprocess.run([python, "-c", "import clingo"], check=False).returncode == 0:
        pytest.skip("needs a Python without clingo in /usr/bin")
    monkeypatch.setenv("SPACK_PYTHON", str(python))
    monkeypatch.setenv("SPACK_USER_CACHE_PATH", str(Path.home() / "empty"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")

    answer = cli("build", "hello", *real_spack.options)

    assert answer.code == 4
    assert "Spack's Python does not have the solver clingo, and Spack could not download it" in answer.stderr
    assert "SPACK_PYTHON=" in answer.stderr


@pytest.mark.parametrize(("target", "version"), [("neoverse_v2", "1.3.2"), ("zen3", "1.2.12")])
def test_a_package_that_spack_loaded_before_has_the_versions_of_the_node(
    real_spack: RealSpack, place: Path, target: str, version: str
) -> None:
    folder = place / "env"
    folder.mkdir()
    repos = {"alps": str(real_spack.alps), "builtin": str(real_spack.builtin)}
    manifest = {"spack": {"include:": [], "specs": [], "view": False, "repos": repos}}
    (folder / "spack.yaml").write_text(json.dumps(manifest))
    script = Path(__file__).parent / "versions_after_answers.py"
    command = [real_spack.program, "-e", folder, "python", script, SCRIPT, target]

    done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"['{version}']")

"""Real Spack resolves what we write: the recipes that ship, on every system they are committed for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Answer
from tests.real.conftest import RealSpack
from uenvtool.knowledge import load_recipe
from uenvtool.model.system_reader import load_system
from uenvtool.spack.compare import matches
from uenvtool.spack.environment import plan_environment
from uenvtool.spack.lock import Lock, read_lock
from uenvtool.spack.manifest import render, render_compiler, render_manifest

pytestmark = pytest.mark.real
Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]

COUPLED = {
    "pytorch-2.6": {
        "py-torch": "2.6.0",
        "py-torchvision": "0.21.0",
        "py-torchaudio": "2.6.0",
        "py-triton": "3.2.0",
        "nccl": "2.26.2-1",
        "aws-ofi-nccl": "1.14.0",
        "cuda": "12.6.0",
        "cudnn": "9.2.0.82-12",
        "cray-mpich": "8.1.32",
        "python": "3.13.0",
        "py-transformers": "4.48.3",
        "gcc": "13.3.0",
    },
    "pytorch-2.9": {
        "py-torch": "2.9.1",
        "py-torchvision": "0.24.1",
        "py-torchaudio": "2.9.1",
        "py-triton": "3.5.1",
        "aws-ofi-nccl": "1.18.0",
        "cray-mpich": "9.0.0",
        "gcc": "14.2.0",
    },
}


def lock_in(folder: Path) -> Lock:
    return read_lock(folder / "spack.lock", str(folder))


@pytest.mark.parametrize("system", ["clariden", "bristen"])
@pytest.mark.parametrize("recipe", ["pytorch-2.6", "pytorch-2.9"])
def test_a_recipe_that_ships_resolves_to_the_committed_versions(
    cli: Cli, real_spack: RealSpack, recipe: str, system: str
) -> None:
    answer = cli("build", recipe, "--system", system, "-o", "env", *real_spack.options)

    uarch = {"clariden": "gh200", "bristen": "a100"}[system]
    assert answer.code == 0, answer.stderr
    versions = lock_in(Path("env")).versions()
    assert versions == lock_in(ROOT / "envs" / recipe / uarch).versions()
    assert {name: versions[name] for name in COUPLED[recipe]} == {n: [v] for n, v in COUPLED[recipe].items()}


def test_pytorch_2_6_is_the_published_uenv_but_for_differences_on_record() -> None:
    recipe = load_recipe("pytorch-2.6")
    assert recipe.published is not None
    reasons = {name: difference.reason for name, difference in recipe.differences.items()}

    found = matches(recipe.published, lock_in(ROOT / "envs/pytorch-2.6/gh200").versions(), reasons)

    assert len(found) == 210
    assert sum(match.present for match in found) >= 205
    assert sum(match.same for match in found) >= 165
    assert [match.row.name for match in found if not match.same and not match.reason] == []


def test_hello_resolves_on_this_machine(cli: Cli, real_spack: RealSpack) -> None:
    answer = cli("build", "hello", *real_spack.options)

    assert answer.code == 0, answer.stderr
    assert {"zlib-ng", "zstd", "pigz"} <= set(lock_in(Path("envs/hello/host")).versions())
    assert cli("build", "hello", "--check").code == 0


def concretized_as_on_a_node(real_spack: RealSpack, files: dict[str, str], folder: Path) -> Lock:
    """The lock of an environment where Spack believes to be on a GH200 node, see as_on_the_node.py."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    script = Path(__file__).parent / "as_on_the_node.py"
    command = [real_spack.program, "-e", folder, "python", script, "neoverse_v2", "sles15", "2.31", folder]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return lock_in(folder)


@pytest.mark.parametrize(("recipe", "gcc"), [("pytorch-2.6", "13.3.0"), ("pytorch-2.9", "14.2.0")])
def test_on_the_node_the_compiler_of_the_first_stage_resolves(
    real_spack: RealSpack, place: Path, recipe: str, gcc: str
) -> None:
    environment = plan_environment(load_recipe(recipe), load_system("clariden"), "gh200")
    assert environment.compiler is not None
    text = render_compiler(environment, environment.compiler, {"builtin": real_spack.builtin})

    lock = concretized_as_on_a_node(real_spack, {"spack.yaml": text}, place / "env")

    found = {(package.version, bool(package.external)) for package in lock.packages if package.name == "gcc"}
    assert found == {("12.3.0", True), (gcc, False)}


def test_on_the_node_the_same_file_gives_the_same_versions(real_spack: RealSpack, place: Path) -> None:
    environment = plan_environment(load_recipe("pytorch-2.6"), load_system("clariden"), "gh200")
    text = render_manifest(environment, {"builtin": real_spack.builtin})

    native = concretized_as_on_a_node(real_spack, {**render(environment), "spack.yaml": text}, place / "env").versions()

    cross = lock_in(ROOT / "envs/pytorch-2.6/gh200").versions()
    added_by_spack = {"compiler-wrapper", "gcc-runtime"}  # where it can run the compiler
    assert {name: versions for name, versions in native.items() if name not in added_by_spack} == cross


def test_a_clash_is_told_in_ten_lines(cli: Cli, real_spack: RealSpack, write: Write) -> None:
    write(
        "recipes/clash/recipe.yaml",
        SMALL.replace("home: clariden", "home: local")
        .replace("- zlib-ng\n", "- pigz ^zlib-ng@2.0.7\n")
        .replace("    - {spec: hdf5@1.14 +mpi, reason: files}\n", "")
        + "require: {zlib-ng: 2.2.4}\n",
    )

    answer = cli("build", "clash", *real_spack.options)

    told = answer.stderr[answer.stderr.index("error: Spack") : answer.stderr.index("hint: Spack's whole")]
    assert answer.code == 4
    assert len(told.splitlines()) <= 10
    assert "zlib-ng@2.0.7" in told
    assert "2.2.4" in told
    assert not Path("envs/clash/host/spack.lock").exists()


def test_an_unknown_package_is_told(cli: Cli, real_spack: RealSpack, write: Write) -> None:
    write("recipes/odd/recipe.yaml", SMALL.replace("home: clariden", "home: local").replace("- zlib-ng\n", "- zlip\n"))

    answer = cli("build", "odd", *real_spack.options)

    assert answer.code == 4
    assert "'zlip' does not exist" in answer.stderr
    assert os.sep + "tmp" + os.sep + "uenvtool-" not in answer.stderr

"""Real Stackinator reads the recipes that we write for it, 6 those of version 2, 7 those of version 3, and makes of one
of its own what we make of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Cli, Write
from tests.support import peers
from tests.support.index import environment, fail_or_skip_without_index
from tests.support.made_once import made_once
from tests.support.needs import skip_without
from tests.support.pythons import pythons
from tests.support.samples import sampled
from uenvtool.knowledge.spec import parse_spec

pytestmark = [pytest.mark.real, pytest.mark.slow]

READ = """
import sys, pathlib, yaml
from stackinator import schema
folder = pathlib.Path(sys.argv[1])
for name, validator in (("config", schema.ConfigValidator), ("compilers", schema.CompilersValidator),
                        ("environments", schema.EnvironmentsValidator)):
    validator.validate(yaml.safe_load((folder / f"{name}.yaml").read_text()))
"""
CONFIGURE = """
import json, sys, types, yaml
sys.modules["magic"] = types.ModuleType("magic")  # it looks at the keys of mirrors, of which there are none
from stackinator.recipe import Recipe
words = dict(recipe="theirs", system="site", mount=None, no_bwrap=True, develop=False, mirror=None, cache=None)
print(json.dumps(yaml.safe_load(Recipe(types.SimpleNamespace(**words)).spack_yaml)["spack"]))
"""
THEIRS = {
    "site/packages.yaml": "packages: {gcc: {externals: []}}\n",
    "site/network.yaml": "mpi: {cray-mpich: {specs: ['libfabric@2.2:']}}\n",
    "theirs/compilers.yaml": "gcc: {version: '13.3.0'}\nllvm: {version: '19.1.7'}\n",
    "theirs/environments.yaml": """\
env:
  compiler: [gcc, llvm]
  network: {mpi: cray-mpich@8.1.32 +cuda %fortran=gcc, specs: [libfabric@2.3 +cuda]}
  unify: when_possible
  specs: [fmt@11, hdf5 +cxx %llvm ^zlib-ng@2.2, hdf5~mpi]
  variants: [+mpi, cuda_arch=90]
  views:
    all: {link: all, exclude: [hdf5~mpi]}
    roots: {select: [fmt]}
""",
}
COMPILERS = """\
extends: pytorch-2.9
description: PyTorch, and compilers for what users build.
compilers:
  llvm: {version: 19.1.7, variants: +clang ~gold}
  nvhpc: 25.1
"""


def python_of(version: int) -> Path:
    """A Python that can import that Stackinator; skips if there is none."""
    named = os.environ.get(f"UENVTOOL_TEST_STACKINATOR_{version}_PYTHON")
    if not named and version == 6:
        how = "pip install git+https://github.com/eth-cscs/stackinator@v6.0 into an environment of its own"
        skip_without("Stackinator 6", f"{how}, and name its Python in UENVTOOL_TEST_STACKINATOR_6_PYTHON")
    return Path(named) if named else of_the_newest_python()


def of_the_newest_python() -> Path:
    """A Python that can import Stackinator: an environment, made once."""
    source, (version, newest) = peers.STACKINATOR.need(), list(pythons().items())[-1]
    if tuple(map(int, version.split("."))) < (3, 12):
        skip_without("Python 3.12 or newer, for Stackinator", "`pyenv install 3.13`")

    def make(folder: Path) -> None:
        subprocess.run([newest, "-m", "venv", folder], check=True)
        copy = shutil.copytree(source, folder / "src")  # the build writes beside its source
        words = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", copy]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment())
        if done.returncode != 0:
            fail_or_skip_without_index(done.stderr)

    return made_once("python-of-stackinator", f"{source} {newest}", make) / "bin" / "python"


@pytest.mark.parametrize("recipe", sampled(["pytorch-2.6", "pytorch-2.9", "compilers"]))
@pytest.mark.parametrize(("version", "format_"), [(6, "stackinator"), (7, "stackinator3")])
def test_stackinator_accepts_the_recipe(cli: Cli, write: Write, recipe: str, version: int, format_: str) -> None:
    python = python_of(version)
    write("recipes/compilers/recipe.yaml", COMPILERS)
    assert cli("build", recipe, "--system", "clariden", "--format", format_, "-o", "out").code == 0

    done = subprocess.run([python, "-c", READ, "out"], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_stackinator_makes_the_same_specs_variants_and_views_of_its_recipe(cli: Cli, write: Write, place: Path) -> None:
    (place / "store").mkdir()
    spack = "{repo: s, commit: v1.2.0, packages: {repo: p, commit: v2026.06.0}}"
    write("theirs/config.yaml", f"{{name: it, version: 3, store: {place}/store, spack: {spack}}}\n")
    for file, text in THEIRS.items():
        write(file, text)
    done = subprocess.run([python_of(7), "-c", CONFIGURE], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    groups: dict[str, dict[str, Any]] = {group["group"]: group for group in theirs["specs"]}

    assert cli("new", "recipe", "ours", "--from", "theirs").code == 0
    assert cli("build", "ours", "--system", "clariden", "--no-concretize", "-o", "out").code == 0

    ours = yaml.safe_load((place / "out/spack.yaml").read_text())["spack"]
    *named, _ = ours["definitions"]
    specs = [spec.replace("@=", "@") for group in named for spec in next(iter(group.values()))]
    assert sorted(map(_spaced, specs)) == sorted(map(_spaced, groups["env"]["specs"]))
    wanted = groups["env"]["override"]["packages"]
    assert ours["packages"]["all"]["variants"].split() == wanted["all"]["variants"]
    assert ours["concretizer"]["unify"] == groups["env"]["override"]["concretizer"]["unify"]
    assert {name: {**view, "group": "env"} for name, view in ours["view"].items()} == theirs["view"]
    gcc, llvm = (
        yaml.safe_load((place / f"out/compiler/{name}").read_text())["spack"]["definitions"][0]["compiler"][0]
        for name in ("spack.yaml", "llvm/spack.yaml")
    )
    first = groups["gcc"]
    assert {*first["specs"][0].split(), *first["override"]["packages"]["gcc"]["variants"][0].split()} <= {*gcc.split()}
    assert llvm == groups["llvm"]["specs"][0]


def _spaced(spec: str) -> str:
    return str(parse_spec(spec).over(parse_spec("*")))

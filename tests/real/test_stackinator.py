"""Real Stackinator reads the recipes that we write for it: 6 those of version 2, 7 those of version 3."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support import peers
from tests.support.index import environment, fail_or_skip_without_index
from tests.support.made_once import made_once
from tests.support.needs import skip_without
from tests.support.pythons import pythons
from tests.support.samples import sampled

pytestmark = [pytest.mark.real, pytest.mark.slow]

READ = """
import sys, pathlib, yaml
from stackinator import schema
folder = pathlib.Path(sys.argv[1])
for name, validator in (("config", schema.ConfigValidator), ("compilers", schema.CompilersValidator),
                        ("environments", schema.EnvironmentsValidator)):
    validator.validate(yaml.safe_load((folder / f"{name}.yaml").read_text()))
"""
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

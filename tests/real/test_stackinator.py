"""Real Stackinator reads the recipes that we write for it: 6 those of version 2, 7 those of version 3."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.conftest import Answer

pytestmark = pytest.mark.real

READ = """
import sys, pathlib, yaml
from stackinator import schema
folder = pathlib.Path(sys.argv[1])
for name, validator in (("config", schema.ConfigValidator), ("compilers", schema.CompilersValidator),
                        ("environments", schema.EnvironmentsValidator)):
    validator.validate(yaml.safe_load((folder / f"{name}.yaml").read_text()))
"""
HOW = (
    "pip install git+https://github.com/eth-cscs/stackinator@v6.0 (or @main for 7) into an environment of its own, "
    "and its Python in UENVTOOL_TEST_STACKINATOR_{version}"
)


@pytest.mark.parametrize("recipe", ["pytorch-2.6", "pytorch-2.9"])
@pytest.mark.parametrize(("version", "format_"), [(6, "stackinator"), (7, "stackinator3")])
def test_stackinator_accepts_the_recipe(cli: Callable[..., Answer], recipe: str, version: int, format_: str) -> None:
    python = os.environ.get(f"UENVTOOL_TEST_STACKINATOR_{version}", "")
    if not python:
        pytest.skip(f"needs Stackinator {version}: {HOW.format(version=version)}")
    assert cli("build", recipe, "--system", "clariden", "--format", format_, "-o", "out").code == 0

    done = subprocess.run([python, "-c", READ, "out"], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert python != sys.executable

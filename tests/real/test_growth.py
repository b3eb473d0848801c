"""Test that a system or a recipe for another version is one file, and that preferred versions exist in Spack."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.env.test_network import TOOLS_OF_CPU, new_site
from tests.real.conftest import RealSpack
from tests.support.project import ROOT
from uenvtool.env.manifest import render, render_manifest
from uenvtool.env.plan import plan_environment
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.kinds import RECIPE, SYSTEM, Kind
from uenvtool.knowledge.load import is_abstract
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.lock import read_lock
from uenvtool.knowledge.system import load_system
from uenvtool.knowledge.yamltree import read

pytestmark = [pytest.mark.real, pytest.mark.slow]
GROWTH = Path(__file__).parent / "growth"
PYTORCH_2_8 = {
    "py-torch": "2.8.0", "py-triton": "3.4.0", "py-torchvision": "0.23.0", "nccl": "2.28.7-1", "libfabric": "2.3.1",
    "aws-ofi-nccl": "1.17.1", "cray-mpich": "8.1.32",
}  # fmt: skip


def named(kind: Kind) -> list[str]:
    return [name for name, location in available(kind).items() if not is_abstract(read(location.path, location.shown))]


def shipped() -> list[tuple[str, str, str]]:
    """Return every recipe with every system and node type that it supports."""
    return [
        (recipe, system, uarch)
        for recipe in named(RECIPE)
        for system in named(SYSTEM)
        if system != "local"
        for uarch in load_system(system).nodes
        if load_recipe(recipe).supports(uarch)
    ]


SHIPPED = shipped()


@pytest.mark.build
@pytest.mark.parametrize(("recipe", "system", "uarch"), SHIPPED, ids=map("-".join, SHIPPED))
def test_no_version_is_preferred_that_spack_does_not_know(
    real_spack: RealSpack, place: Path, write: Write, recipe: str, system: str, uarch: str
) -> None:
    environment = plan_environment(load_recipe(recipe), load_system(system), uarch)
    text = render_manifest(environment, real_spack.repositories(environment.recipe))
    alone = text.replace("spack:\n", "spack:\n  include:: []\n", 1)
    for name, content in {**render(environment), "spack.yaml": alone}.items():
        write(f"env/{name}", content)
    machine = "aarch64" if environment.node.target.startswith("neoverse") else "x86_64"
    script = Path(__file__).parent / "preferred_versions.py"

    done = subprocess.run(
        [real_spack.program, "-e", place / "env", "python", script, machine],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.fixture
def growth(place: Path) -> Path:
    """Copies the files of tests/real/growth to the current directory, like a user's files."""
    shutil.copytree(GROWTH, place, dirs_exist_ok=True)
    return place


@pytest.mark.parametrize("system", ["dune", "fjord"])
def test_a_new_system_has_an_activation_and_an_environment(cli: Cli, growth: Path, system: str) -> None:
    scripts = cli("activate", "--system", system)
    written = cli("build", "pytorch-2.9", "--system", system, "--no-concretize", "-o", "env")

    assert (scripts.code, written.code) == (0, 0), scripts.stderr + written.stderr
    assert (growth / "env" / "spack.yaml").is_file()


@pytest.mark.solve
@pytest.mark.parametrize(
    ("recipe", "system", "versions"),
    [
        ("pytorch-2.8", "clariden", PYTORCH_2_8),
        ("pytorch-2.6", "dune", {"py-torch": "2.6.0", "mpich": "4.3.0", "libfabric": "1.22.0", "nccl": "2.26.2-1"}),
        ("pytorch-2.9", "fjord", {"py-torch": "2.9.1", "nccl": "2.29.2-1", "nvshmem": "3.4.5"}),
    ],
)
def test_a_new_system_or_recipe_is_one_file_and_resolves(
    cli: Cli, real_spack: RealSpack, growth: Path, recipe: str, system: str, versions: dict[str, str]
) -> None:
    answer = cli("build", recipe, "--system", system, "-o", "env", *real_spack.options_for(load_recipe(recipe)))

    assert answer.code == 0, answer.stderr
    found = read_lock(growth / "env" / "spack.lock", "lock").versions()
    assert {name: found.get(name) for name in versions} == {name: [version] for name, version in versions.items()}


CXI = {"cxi", "rxm", "tcp"}


@pytest.mark.solve
@pytest.mark.parametrize(
    ("system", "networks"),
    [
        ("mine", {"libfabric": ("2.5.1", CXI), "openmpi": ("5.0.10", {"ofi"})}),
        ("clariden", {"libfabric": ("2.5.1", CXI), "libcxi": ("13.0.0", set()), "cray-mpich": ("8.1.32", set())}),
    ],
)
def test_a_recipe_that_says_nothing_of_it_reaches_slingshot(
    cli: Cli, real_spack: RealSpack, write: Write, place: Path, system: str, networks: dict[str, tuple[str, set[str]]]
) -> None:
    write("recipes/tools/recipe.yaml", TOOLS_OF_CPU)
    new_site(cli, write, "slingshot", "GH200:4")

    answer = cli("build", "tools", "-s", system, "-o", "env", *real_spack.options_for(load_recipe("tools")))

    assert answer.code == 0, answer.stderr
    found = {package.name: package for package in read_lock(place / "env" / "spack.lock").packages}
    for name, (version, fabrics) in networks.items():
        assert found[name].version == version
        assert found[name].variants.get("fabrics", frozenset()) >= fabrics
    assert found["libfabric"].variants["cuda"] == {"True"}


@pytest.mark.solve
def test_the_example_of_the_documentation_resolves_with_every_inherited_variant(
    cli: Cli, real_spack: RealSpack, place: Path
) -> None:
    page = (ROOT / "docs" / "recipes.md").read_text()
    example = page.split("## Extending")[1].split("```yaml\n")[1].split("```")[0]
    (place / "recipes" / "mine").mkdir(parents=True)
    (place / "recipes" / "mine" / "recipe.yaml").write_text(example)

    answer = cli("build", "mine", "--system", "clariden", "-o", "env", *real_spack.options_for(load_recipe("mine")))

    assert answer.code == 0, answer.stderr
    found = read_lock(place / "env" / "spack.lock", "lock").versions()
    assert (found["py-torch"], found["py-triton"], found["gloo"]) == (["2.7.1"], ["3.3.1"], ["2023-12-03"])
    nodes = json.loads((place / "env" / "spack.lock").read_text())["concrete_specs"].values()
    (torch,) = (node["parameters"] for node in nodes if node["name"] == "py-torch")
    (inherited,) = (root.spec for root in load_recipe("pytorch-2.6").roots if root.spec.package == "py-torch")
    asked = re.findall(r"([+~])([\w-]+)", inherited.text)
    assert {("+", "gloo"), ("+", "caffe2"), ("~", "mkldnn")} <= set(asked)
    assert {name: torch[name] for _, name in asked} == {name: sign == "+" for sign, name in asked}

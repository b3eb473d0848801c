"""Test the requirements of a system's network on an environment, and its MPI."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from tests.env.test_environment import data, packages, planned
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.packages import package_facts
from uenvtool.knowledge.settings import settings_for
from uenvtool.knowledge.system import load_system

TOOLS = SMALL.replace("    - zlib-ng\n", "    - netcdf-c +mpi\n") + "mpi: true\n"
"""A recipe that says nothing of any network."""
TOOLS_OF_CPU = TOOLS.replace("global_variants: [gpu]\n", "")
RECIPES = ["tools", "pytorch-2.6", "pytorch-2.9", "pytorch-2.10"]
SLINGSHOT = {"libfabric": "fabrics=cxi,rxm,tcp", "openmpi": "fabrics=ofi"}
UCX = {"ucx": "+dc +ib_hw_tm +mlx5_dv +rc +rdmacm +ud +verbs", "openmpi": "fabrics=ucx"}


def new_site(cli: Cli, write: Write, fabric: str, gpu: str) -> str:
    """Make the system `mine`, with a mount point as a site fills it in; gives what was told."""
    told = cli("new", "system", "mine", "--fabric", fabric, "--gpu", gpu).stderr
    write("systems/mine.yaml", Path("systems/mine.yaml").read_text() + "mount: /opt/uenv\n")
    return told


@pytest.mark.parametrize(
    ("fabric", "gpu", "recipes", "needs"),
    [
        ("slingshot", "GH200:4", RECIPES, SLINGSHOT),
        ("slingshot", "MI300A:4", ["tools", "pytorch-2.10-rocm"], SLINGSHOT),
        ("infiniband", "H100:4", RECIPES, UCX),
        ("roce", "H100:4", RECIPES, UCX),
    ],
)
def test_a_new_site_reaches_its_network_with_every_recipe(
    cli: Cli, write: Write, fabric: str, gpu: str, recipes: list[str], needs: dict[str, str]
) -> None:
    write("recipes/tools/recipe.yaml", TOOLS)
    assert "guessed: mpi, built with the other packages" in new_site(cli, write, fabric, gpu)
    assert "# guessed: built with the other packages" in Path("systems/mine.yaml").read_text().split("mpi: openmpi")[0]

    (uarch,) = load_system("mine").nodes
    for recipe in recipes:
        assert load_recipe(recipe).supports(uarch)
        found = packages(recipe, "mine", uarch)
        for name, need in needs.items():
            assert need in found[name]["require"], (recipe, name)


PREFERRED = [
    ("tools", "mine", None, []),  # as all packages there
    ("cpu", "mine", "+cuda cuda_arch=90", []),
    ("mpi", "mine", "+mpi +cuda cuda_arch=90", []),  # what all packages prefer is part of it
    ("cpu", "clariden", "+cuda cuda_arch=90", ["@2.2:", "+gdrcopy"]),
    ("pytorch-2.6", "clariden", None, ["+gdrcopy"]),  # it pins the version
    ("pytorch-2.9", "clariden", None, []),  # its root spec says it
]


@pytest.mark.parametrize(("recipe", "system", "variants", "preferred"), PREFERRED)
def test_what_fabric_and_system_prefer_of_libfabric_holds_also_where_the_recipe_says_nothing_of_it(
    cli: Cli, write: Write, recipe: str, system: str, variants: str | None, preferred: list[str]
) -> None:
    write("recipes/tools/recipe.yaml", TOOLS)
    write("recipes/cpu/recipe.yaml", TOOLS_OF_CPU)
    write("recipes/mpi/recipe.yaml", "extends: cpu\nglobal_variants: [mpi]\nvariants: {mpi: {values: [+mpi]}}\n")
    new_site(cli, write, "slingshot", "GH200:4")

    found = packages(recipe, system, "gh200")

    assert (found["libfabric"].get("variants"), found["libfabric"].get("prefer", [])) == (variants, preferred)
    pinned = [found[name]["version"] for name in ("libcxi", "cxi-driver", "cassini-headers") if name in found]
    assert pinned == ([[":13.0.0"]] * 3 if system == "clariden" else [])


@pytest.mark.parametrize(
    ("system", "wanted", "taken"),
    [
        ("clariden", "mpi: true", "cray-mpich@=8.1.32"),
        ("clariden", 'mpi: {openmpi: "5.0.9:"}', "openmpi@5.0.9:"),
        ("clariden", "mpi: {openmpi: 5, cray-mpich: 9}", "cray-mpich@=9.0.0"),  # the system's first of them
        ("clariden", 'mpi: {mpich: {version: "4.3:", variants: +cuda}}', "mpich@4.3: +cuda"),  # of its own
        ("clariden", "mpi: true\nrequire: {cray-mpich: 9.0.0}", "cray-mpich@=9.0.0"),
        ("olivia", "mpi: {openmpi: 5.0.9}\nrequire: {openmpi: {variants: +cuda}}", "openmpi@5.0.9"),
    ],
)
def test_a_recipe_chooses_among_the_mpis_of_a_system_or_brings_its_own(
    write: Write, system: str, wanted: str, taken: str
) -> None:
    write("recipes/mine/recipe.yaml", f"extends: pytorch-2.6\ndescription: Mine.\n{wanted}\n")

    environment = planned("mine", system, "gh200")

    assert data(environment)["packages"]["mpi"]["require"] == [taken]
    name = taken.partition("@")[0]
    roots = {root.package for root in environment.roots}
    assert name in roots
    assert ("cray-pals" in roots) == (name == "cray-mpich")
    others = {"cray-mpich", "openmpi", "mpich"} - {name}
    assert not others & {settings.name for settings in environment.packages if settings.require or settings.externals}
    tuned = {one.setting.name for one in settings_for(system, recipe="mine").settings}
    assert ("MPICH_GPU_SUPPORT_ENABLED" in tuned) == (name == "cray-mpich")


def test_what_a_recipe_requires_of_the_mpi_by_its_provider_stands_beside_the_choice(write: Write) -> None:
    pin = "mpi: {openmpi: 5.0.9}\nrequire: {mpi: {provider: openmpi +cuda}}"
    write("recipes/mine/recipe.yaml", f"extends: pytorch-2.6\ndescription: Mine.\n{pin}\n")

    assert data(planned("mine", "olivia", "gh200"))["packages"]["mpi"]["require"] == ["openmpi@5.0.9", "openmpi +cuda"]


def test_each_coupled_triton_has_its_llvm_or_is_refused(cli: Cli, write: Write) -> None:
    package = ast.parse((ROOT / "recipes" / "pytorch" / "packages" / "py_triton" / "package.py").read_text())
    (table,) = (
        node.value for node in package.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LLVM"
    )
    known = ast.literal_eval(table)
    rules = [rule for rule in package_facts().couplings if rule.when.package == "py-torch"]
    assert len(rules) >= 14

    for rule in rules:
        (triton,) = [str(pin.version) for pin in rule.then if pin.package == "py-triton"]
        mine = f"extends: pytorch-2.9\ndescription: Mine.\ngroups: {{python: {{specs: [{rule.when}]}}}}\n"
        write("recipes/mine/recipe.yaml", mine)
        answer = cli("build", "mine", "--system", "clariden", "--dry-run")

        assert answer.code == (0 if triton in known else 2), answer.stderr
        if triton not in known:
            assert (
                f"py-triton, which is coupled to {rule.when}, would not build: "
                f"neither spack-packages 1e8cf059 nor uenvtool has a Spack package for triton {triton}" in answer.stderr
            )

"""Test the requirements of a system's network on an environment, and its MPI."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from tests.env.test_environment import data, packages, planned
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.lock import Lock, Package, without_network
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


SLURM = "schedulers=slurm"
ROCM, CUDA = "+rocm amdgpu_target=gfx942", "+cuda cuda_arch=90"


@pytest.mark.parametrize(
    ("fabric", "gpu", "line", "mpi", "required"),
    [
        ("slingshot", "MI300A:4", "", "openmpi", [SLURM, ROCM]),
        ("infiniband", "GH200:4", "", "openmpi", [SLURM, CUDA]),
        ("ethernet", "H100:4", "", "openmpi", [SLURM, CUDA]),
        ("ethernet", "", "", "openmpi", [SLURM]),
        ("infiniband", "H200:8", "mpi: {mpich: 4.3}", "mpich", ["+slurm", CUDA]),
        ("infiniband", "H200:8", "mpi: {openmpi: {variants: ~cuda}}", "openmpi", [SLURM]),
        ("infiniband", "H200:8", "require: {openmpi: {variants: schedulers=none}}", "openmpi", [CUDA]),
        ("infiniband", "H200:8", "global_variants: [gpu]", "openmpi", [SLURM, CUDA]),
    ],
)
def test_the_mpi_of_a_new_site_supports_its_scheduler_and_its_gpus(
    cli: Cli, write: Write, fabric: str, gpu: str, line: str, mpi: str, required: list[str]
) -> None:
    gpu_variants = "variants: {gpu: {when: gpu == nvidia, values: [+cuda, 'cuda_arch=${cuda_arch}']}}\n"
    benchmarks = "groups: {tools: {specs: [osu-micro-benchmarks]}}\n"
    own = line if line.startswith("mpi") else f"mpi: true\n{line}"
    write("recipes/mine/recipe.yaml", f"extends: hello\n{gpu_variants}{benchmarks}{own}\n")
    assert cli("new", "system", "mine", "--fabric", fabric, "--gpu", gpu).code == 0
    assert cli("validate", "systems/mine.yaml", "recipes/mine").code == 0
    (uarch,) = load_system("mine").nodes

    environment = planned("mine", "mine", uarch)

    settings = data(environment)["packages"]
    defaults = {SLURM, "+slurm", ROCM, CUDA}
    assert [text for text in settings[mpi]["require"] if text in defaults] == required
    assert settings[mpi].get("variants") not in required
    assert set(required) <= set(environment.needs[mpi])
    of_gpu = [text for text in required if text in (ROCM, CUDA)]
    if not line:
        of_benchmarks = settings.get("osu-micro-benchmarks", {}).get("require", [])
        assert [text for text in of_benchmarks if text in defaults] == of_gpu


def test_a_lock_whose_mpi_lacks_the_scheduler_or_the_gpus_is_refused(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", "extends: hello\nmpi: true\n")
    cli("new", "system", "mine", "--fabric", "slingshot", "--gpu", "MI300A:4")
    needs = planned("mine", "mine", "mi300").needs
    variants = {"fabrics": {"ofi"}, "schedulers": {"slurm"}, "rocm": {"True"}, "amdgpu_target": {"gfx942"}}

    def lacks(**changed: set[str]) -> list[str]:
        values = {name: frozenset(value) for name, value in {**variants, **changed}.items()}
        package = Package(name="openmpi", version="5.0.10", hash="a", target="", os="", external="", variants=values)
        return [*without_network(Lock((), (package,), ""), needs)]

    assert lacks() == []
    assert lacks(schedulers={"none"}) == ["openmpi has schedulers=none but needs schedulers=slurm"]
    assert lacks(rocm={"False"}) == ["openmpi has rocm=False but needs +rocm"]


def test_a_system_decides_its_own_variants_and_is_told_of_a_scheduler_that_it_does_not_provide(
    cli: Cli, write: Write
) -> None:
    write("recipes/mine/recipe.yaml", "extends: hello\nmpi: true\n")
    cli("new", "system", "mine", "--fabric", "roce", "--gpu", "H100:4")
    text = Path("systems/mine.yaml").read_text()
    without = text.replace("slurm@21.08.5", "munge@0.5").replace("  slurm:\n", "  munge:\n")

    def required(packages: str, text: str = text) -> list[str]:
        write("systems/mine.yaml", text.replace("packages:\n", f"packages:\n  {packages}\n"))
        return data(planned("mine", "mine", "h100"))["packages"]["openmpi"]["require"][:-1]

    assert required("openmpi: {require: [schedulers=none]}", without) == ["fabrics=ucx", "schedulers=none", CUDA]
    assert cli("validate", "systems/mine.yaml").code == 0
    assert required("openmpi: {defaults: []}") == ["fabrics=ucx"]
    write("systems/mine.yaml", without)
    answer = cli("validate", "systems/mine.yaml")
    assert answer.code == 2
    assert "systems/mine.yaml:8:6: openmpi needs schedulers=slurm, but mine does not provide slurm" in answer.stderr


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

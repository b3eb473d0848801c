"""Test recipes and systems: extending, and errors with a position and a hint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import SMALL, Cli, Write
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.checks import coupled_pins, load_recipe
from uenvtool.knowledge.locate import in_your_own
from uenvtool.knowledge.place import choose
from uenvtool.knowledge.system import load_system

COMMIT = "e79ba9fc76dd02568da737230bd5f570822fcbb9"
PINNED = f"{{url: https://x, commit: {COMMIT}}}"


def test_torch_can_be_moved_with_everything_that_is_coupled_to_it_and_keeps_what_nobody_named(write: Write) -> None:
    write(
        "recipes/mine/recipe.yaml",
        "extends: pytorch-2.6\ndescription: mine\ngroups: {python: {specs: [py-torch@2.7.1 +distributed]}}\n"
        "require:\n  py-triton: {version: 3.3.1, when: site == CSCS}\n",
    )

    recipe = load_recipe("mine")

    (inherited,) = [root.spec for root in load_recipe("pytorch-2.6").roots if root.spec.package == "py-torch"]
    (torch,) = [root for root in recipe.roots if root.spec.package == "py-torch"]
    assert (str(torch.spec.versions), torch.spec.words) == ("2.7.1", inherited.words)
    assert torch.spec.words["gloo"] == "+gloo"
    assert torch.reason.startswith("MKL-DNN (for x86)")
    assert str(torch.position).startswith("recipes/mine/recipe.yaml:3:")
    coupled = {"py-torchvision": "0.22.1", "py-torchaudio": "2.7.1"}
    for site, found in (("Sigma2", {**coupled, "py-triton": "3.3.1"}), ("CSCS", coupled)):  # where it has a pin itself
        pins = coupled_pins(recipe, {"site": site}).values()
        assert {pin.package: str(pin.version) for pin, _ in pins} == found


def test_a_file_that_extends_its_own_name_extends_the_next_file_of_that_name(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The user's file in the current directory, then the one in ~/.config/uenvtool, then the built-in one."""
    configuration = tmp_path / "configuration"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(configuration))
    built_in = load_system("clariden")
    write(f"{configuration}/uenvtool/systems/clariden.yaml", "extends: clariden\nsite: Configured\n")
    write("systems/clariden.yaml", "extends: clariden\ndescription: mine\n")
    write("recipes/pytorch-2.9/recipe.yaml", "extends: pytorch-2.9\nremove: [py-torchaudio]\n")

    system = load_system("clariden")

    assert (system.description, system.site, system.nodes) == ("mine", "Configured", built_in.nodes)
    packages = {root.spec.package for root in load_recipe("pytorch-2.10").roots}  # extends pytorch-2.9
    assert "py-torch" in packages
    assert "py-torchaudio" not in packages


def specs_of(name: str) -> dict[str, list[str]]:
    return {group.name: [str(root.spec) for root in group.specs] for group in load_recipe(name).groups}


@pytest.mark.parametrize(
    ("below", "above", "specs", "require"),
    [
        (  # `replace` takes the place of what is inherited
            "",
            "groups: {all: {specs: [{spec: hdf5 +fortran, replace: true}]}}",
            {"all": ["zlib-ng", "hdf5 +fortran"]},
            [],
        ),
        (  # what is removed can be added again further up
            "remove: [hdf5]",
            "groups: {all: {specs: [hdf5@1.12]}}",
            {"all": ["zlib-ng", "hdf5@1.12"]},
            [],
        ),
        (  # null drops an inherited pin
            "require: {zstd: 1.5.6, pigz: 2.8}",
            "require: {zstd: null}",
            {"all": ["zlib-ng", "hdf5@1.14 +mpi"]},
            ["pigz"],
        ),
    ],
)
def test_what_is_inherited_can_be_replaced(
    write: Write, below: str, above: str, specs: dict[str, list[str]], require: list[str]
) -> None:
    write("recipes/base/recipe.yaml", SMALL)
    write("recipes/between/recipe.yaml", f"extends: base\n{below}\n")
    write("recipes/mine/recipe.yaml", f"extends: between\nrepos: {{builtin: {PINNED}}}\n{above}\n")

    recipe = load_recipe("mine")

    assert (specs_of("mine"), list(recipe.require)) == (specs, require)
    assert (recipe.repos["builtin"].tag, recipe.repos["builtin"].revision) == (None, COMMIT)


def test_specs_of_one_package_with_different_conditions_stay_apart(write: Write) -> None:
    specs = "[{spec: ucx +cma, when: fabric == slingshot}, {spec: ucx +rc, when: fabric == roce}]"
    write("recipes/base/recipe.yaml", SMALL)
    write("recipes/both/recipe.yaml", f"extends: base\ngroups: {{net: {{specs: {specs}}}}}\n")
    child = "[ucx@1.19, {spec: ucx +dc, when: fabric == roce}]"
    write("recipes/mine/recipe.yaml", f"extends: both\ngroups: {{net: {{specs: {child}}}}}\n")

    assert specs_of("mine")["net"] == ["ucx@1.19 +cma", "ucx@1.19 +rc +dc"]


def test_remove_leaves_out_pins_and_additions_too(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL + "require: {hdf5: {variants: +cxx}}\nprefer: {zstd: 1.5}\n")
    write("recipes/base/packages/hdf5/package.py", "x = 1\n")
    write("recipes/base/packages/zstd/package.py", "x = 1\n")
    write("recipes/mine/recipe.yaml", "extends: base\nremove: [hdf5]\n")

    recipe = load_recipe("mine")

    assert "hdf5" not in {root.spec.package for root in recipe.roots}
    assert (list(recipe.require), list(recipe.prefer)) == ([], ["zstd"])
    assert [addition.target for addition in recipe.additions] == ["zstd/package.py"]


def test_a_recipe_can_extend_several_each_laid_over_the_one_before(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL)
    write(
        "recipes/tools/recipe.yaml", "abstract: true\ndescription: tools\ngroups: {tools: {specs: [pigz, hdf5@1.12]}}\n"
    )
    write("recipes/mine/recipe.yaml", "extends: [base, tools]\ndescription: mine\nremove: [hdf5]\n")

    recipe = load_recipe("mine")

    assert specs_of("mine") == {"all": ["zlib-ng"], "tools": ["pigz"]}
    assert [location.name for location in recipe.chain] == ["mine", "tools", "base"]


def test_an_addition_that_is_a_link_out_of_the_folder_is_refused(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    secret = write("secret.py", "x = 1\n")
    link = Path("recipes/mine/packages/zstd/package.py")
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)

    with pytest.raises(BadInput, match="leads to a file outside the recipe's directory"):
        load_recipe("mine")


def test_a_recipe_is_found_by_name_and_by_path_and_the_users_own_hides_the_built_in_one(
    place: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    write("recipes/hello/recipe.yaml", SMALL)
    for name in ("hello", "mine"):  # the current folder goes before these
        write(f"config/uenvtool/recipes/{name}/recipe.yaml", SMALL.replace("A small recipe.", "Another."))
    path = write("elsewhere/special/recipe.yaml", SMALL)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))

    assert load_recipe("hello").description == "A small recipe."
    assert load_recipe("mine").name == "mine"
    assert [load_recipe(str(found)).name for found in (path, path.parent)] == ["special"] * 2
    assert in_your_own(load_system("clariden").tree.position) == " in your own system, with `extends: clariden`"


def test_the_system_is_the_named_else_the_recognised_else_the_recipes_home(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("pytorch-2.6")
    assert choose(recipe, None, None).system.name == "clariden"
    assert "home" in choose(recipe, None, None).reason

    monkeypatch.setenv("CLUSTER_NAME", "bristen")
    assert choose(recipe, None, None).system.name == "bristen"
    assert "CLUSTER_NAME=bristen" in choose(recipe, None, None).reason

    assert choose(recipe, "daint", None).system.name == "daint"

    monkeypatch.delenv("CLUSTER_NAME")
    local = choose(load_recipe("hello"), None, None)
    assert local.system.name == "local"
    assert "host" not in (local.system.nodes[local.uarch].target, local.system.nodes[local.uarch].os)


def test_validate_fills_every_value_of_a_recipe_that_a_build_fills(cli: Cli, write: Write) -> None:
    lines = [
        "extends: hello",
        "variants: {gpu: {values: ['cuda_arch=${cuda_arch}']}}",
        "global_variants: [gpu]",
        "groups: {tools: {specs: ['hdf5 cuda_arch=${cuda_arch}', {spec: 'ucx c=${cuda_arch}', when: gpu == nvidia}]}}",
        "require: {zstd: {variants: 'cuda_arch=${cuda_arch}'}}",
        "view: {env: {A: '${cuda_arch}', B: {value: '${cuda_arch}', when: cuda_arch}}}",
    ]
    write("recipes/mine/recipe.yaml", "\n".join(lines) + "\n")
    write("recipes/gpus/recipe.yaml", "\n".join([*lines, "uarchs: [a100, gh200]"]) + "\n")

    answer, of_gpus = cli("validate", "recipes/mine"), cli("validate", "recipes/gpus")

    places = re.findall(r"recipe.yaml:(\d+):\d+: \$\{cuda_arch\} has no value on", answer.stderr)
    assert (answer.code, of_gpus.code) == (2, 0)
    assert places == ["2", "4", "5", "6"]
    assert answer.stderr.count("or list only node types that have the value") == len(places)


def test_the_hint_about_an_unknown_fact_does_not_mention_node_types(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", "extends: hello\ndescription: Mine.\nview: {env: {A: '${cuda_arhc}'}}\n")

    answer = cli("validate", "recipes/mine")

    assert "unknown fact 'cuda_arhc'" in answer.stderr
    assert "node types" not in answer.stderr

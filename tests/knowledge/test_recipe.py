"""Recipes and systems: what extends, what is refused, with the place and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SMALL, Cli, Write
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.checks import coupled_pins, load_recipe
from uenvtool.knowledge.locate import in_your_own
from uenvtool.knowledge.place import choose
from uenvtool.knowledge.system import load_system


def refused(name: str) -> str:
    with pytest.raises(BadInput) as caught:
        load_recipe(name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("edit", "where"),
    [
        ("groups: {python: {specs: [py-triton@3.4]}}", "recipe.yaml:3:27"),
        ("require: {py-triton: 3.4.0}", "recipe.yaml:3:22"),
        ("prefer:\n  py-triton:\n    version: 3.4.0", "recipe.yaml:4:3"),
    ],
)
def test_a_broken_coupling_is_refused_and_names_the_rule(write: Write, cli: Cli, edit: str, where: str) -> None:
    path = write("recipes/mine/recipe.yaml", f"extends: pytorch-2.6\ndescription: mine\n{edit}\n")

    for command in (("validate", path), ("build", "mine")):
        answer = cli(*command)

        assert answer.code == 2
        assert where in answer.stderr
        assert "does not go with py-torch@2.6.0, which needs py-triton@3.2.0" in answer.stderr
        assert "recipes/pytorch/recipe.yaml:" in answer.stderr
    assert not Path("envs").exists()


def test_torch_can_be_moved_with_everything_that_is_coupled_to_it(write: Write) -> None:
    write(
        "recipes/mine/recipe.yaml",
        "extends: pytorch-2.6\ndescription: mine\ngroups: {python: {specs: [py-torch@2.7.1]}}\n",
    )

    recipe = load_recipe("mine")

    (torch,) = [root.spec for root in recipe.roots if root.spec.package == "py-torch"]
    assert str(torch.versions) == "2.7.1"
    assert {pin.package: str(pin.version) for pin, _ in coupled_pins(recipe).values()} == {
        "py-torchvision": "0.22.1",
        "py-torchaudio": "2.7.1",
        "py-triton": "3.3.1",
    }


def test_a_pin_of_another_site_does_not_undo_a_coupling(write: Write) -> None:
    write(
        "recipes/mine/recipe.yaml",
        "extends: pytorch-2.6\ndescription: mine\ngroups: {python: {specs: [py-torch@2.7.1]}}\n"
        "require:\n  py-triton: {version: 3.3.1, when: site == CSCS}\n",
    )

    recipe = load_recipe("mine")

    assert "py-triton" in coupled_pins(recipe, {"site": "Sigma2"})
    assert "py-triton" not in coupled_pins(recipe, {"site": "CSCS"})


def specs_of(name: str) -> dict[str, list[str]]:
    return {group.name: [str(root.spec) for root in group.specs] for group in load_recipe(name).groups}


def test_an_inherited_spec_keeps_what_the_child_does_not_name(write: Write) -> None:
    write(
        "recipes/mine/recipe.yaml",
        "extends: pytorch-2.6\ndescription: mine\ngroups: {python: {specs: [py-torch@2.7.1 +distributed]}}\n",
    )

    (inherited,) = [root.spec for root in load_recipe("pytorch-2.6").roots if root.spec.package == "py-torch"]
    (torch,) = [root for root in load_recipe("mine").roots if root.spec.package == "py-torch"]

    assert torch.spec.words == inherited.words
    assert torch.spec.words["gloo"] == "+gloo"
    assert torch.reason.startswith("without MKL-DNN")
    assert str(torch.position).startswith("recipes/mine/recipe.yaml:3:")


def test_replace_takes_the_place_of_the_inherited_spec(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL.replace("hdf5@1.14 +mpi", "hdf5@1.14 +mpi +cxx"))
    write(
        "recipes/mine/recipe.yaml",
        "extends: base\ngroups: {all: {specs: [{spec: hdf5 +fortran, replace: true}]}}\n",
    )

    assert specs_of("mine") == {"all": ["zlib-ng", "hdf5 +fortran"]}


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


def test_what_is_removed_can_be_added_again_further_up(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL)
    write("recipes/without/recipe.yaml", "extends: base\nremove: [hdf5]\n")
    write("recipes/mine/recipe.yaml", "extends: without\ngroups: {all: {specs: [hdf5@1.12]}}\n")

    assert specs_of("mine") == {"all": ["zlib-ng", "hdf5@1.12"]}


def test_an_inherited_pin_is_dropped_by_null(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL + "require: {zstd: 1.5.6, pigz: 2.8}\n")
    write("recipes/mine/recipe.yaml", "extends: base\nrequire: {zstd: null}\n")
    write("recipes/wrong/recipe.yaml", "extends: base\nrequire: {zsdt: null}\n")

    assert list(load_recipe("mine").require) == ["pigz"]
    assert "unknown pin to drop 'zsdt'" in refused("wrong")


def test_a_recipe_can_extend_several_each_laid_over_the_one_before(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL)
    write(
        "recipes/tools/recipe.yaml", "abstract: true\ndescription: tools\ngroups: {tools: {specs: [pigz, hdf5@1.12]}}\n"
    )
    write("recipes/mine/recipe.yaml", "extends: [base, tools]\ndescription: mine\nremove: [hdf5]\n")

    recipe = load_recipe("mine")

    assert specs_of("mine") == {"all": ["zlib-ng"], "tools": ["pigz"]}
    assert [location.name for location in recipe.chain] == ["mine", "tools", "base"]


def test_a_pinned_repository_is_replaced_whole(write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL)
    commit = "e79ba9fc76dd02568da737230bd5f570822fcbb9"
    write("recipes/mine/recipe.yaml", f"extends: base\nrepos: {{builtin: {{url: https://x, commit: {commit}}}}}\n")

    builtin = load_recipe("mine").repos["builtin"]

    assert (builtin.tag, builtin.revision) == (None, commit)


def test_a_hint_never_sends_anybody_into_the_built_in_files(write: Write) -> None:
    write("recipes/mine/recipe.yaml", "extends: pytorch-2.6\ndescription: mine\nrequire: {py-torch: 2.7.1}\n")

    problem = refused("mine")

    assert "py-torch is asked for at" in problem
    assert "in a recipe of your own with `extends: pytorch-2.6`" in problem
    assert in_your_own(load_system("clariden").tree.position) == ", in a system of your own with `extends: clariden`"


BAD = {
    "unknown key": (SMALL + "grups: {}\n", "recipe.yaml:15:1: unknown key 'grups'", "did you mean 'groups'?"),
    "wrong type": (SMALL + "remove: zstd\n", "recipe.yaml:15:9: remove: expected a list", "hint:"),
    "bad spec": (SMALL.replace("- zlib-ng", "- zlib-ng@"), "recipe.yaml:12:15: not a spec", "name@version"),
    "unknown variant group": (
        SMALL.replace("global_variants: [gpu]", "global_variants: [gqu]"),
        "recipe.yaml:8:19: unknown variant group 'gqu'",
        "did you mean 'gpu'?",
    ),
    "unknown fact": (
        SMALL.replace("gpu == nvidia", "gpus == nvidia"),
        "recipe.yaml:7:58: unknown fact 'gpus'",
        "did you mean 'gpu'?",
    ),
    "bad condition": (SMALL.replace("gpu == nvidia", "gpu = nvidia"), "is not a condition", "hint:"),
    "unknown parent": ("extends: pytorch-2.5\n", "recipe.yaml:1:10: unknown recipe 'pytorch-2.5'", "did you mean"),
    "two versions": (SMALL + "require: {hdf5: 1.12}\n", "hdf5 is asked for at", "keep one"),
    "path out": (
        SMALL + "published: {table: ../../../etc/passwd}\n",
        "recipe.yaml:15:20: '../../../etc/passwd' leads out",
        "",
    ),
    "missing table": (SMALL + "published: {table: no.yaml}\n", "recipe.yaml:15:20: 'no.yaml' is not in", "hint:"),
    "missing field": (SMALL.replace("home: clariden\n", ""), "'home' is missing", "hint:"),
    "not UTF-8": (SMALL.encode() + b"# \xe4\n", "recipe.yaml:15:3: byte 0xe4 is not UTF-8", "UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_place_and_hint_and_nothing_is_written(write: Write, cli: Cli, name: str) -> None:
    content, place, hint = BAD[name]
    path = write("recipes/bad/recipe.yaml", content)

    for command in (("validate", path), ("build", "bad", "--no-concretize")):
        answer = cli(*command)

        assert answer.code == 2
        assert place in answer.stderr
        assert hint in answer.stderr
        assert "Traceback" not in answer.stderr
    assert sorted(p.name for p in Path.cwd().iterdir()) == ["recipes"]


def test_an_addition_that_is_a_link_out_of_the_folder_is_refused(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    secret = write("secret.py", "x = 1\n")
    link = Path("recipes/mine/packages/zstd/package.py")
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)

    assert "leads out of the recipe's folder" in refused("mine")


def test_an_addition_that_is_not_text_is_refused(write: Write, cli: Cli) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("recipes/mine/packages/zstd/package.py", b"\xff\xfe")

    answer = cli("build", "mine", "--no-concretize")

    assert answer.code == 2
    assert "recipes/mine/packages/zstd/package.py:1:1: cannot read it" in answer.stderr


def test_the_users_own_recipe_hides_the_built_in_one(write: Write) -> None:
    write("recipes/hello/recipe.yaml", SMALL)

    assert load_recipe("hello").description == "A small recipe."


def test_a_recipe_in_the_configuration_folder_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    write("config/uenvtool/recipes/mine/recipe.yaml", SMALL)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))

    assert load_recipe("mine").name == "mine"


def test_a_recipe_is_found_by_path(write: Write) -> None:
    path = write("elsewhere/special/recipe.yaml", SMALL)

    assert load_recipe(str(path)).name == "special"
    assert load_recipe(str(path.parent)).name == "special"


def test_the_system_is_the_named_else_the_recognised_else_the_recipes_home(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("pytorch-2.6")
    assert choose(recipe, None, None).system.name == "clariden"
    assert "home" in choose(recipe, None, None).reason

    monkeypatch.setenv("CLUSTER_NAME", "bristen")
    assert choose(recipe, None, None).system.name == "bristen"
    assert "CLUSTER_NAME=bristen" in choose(recipe, None, None).reason

    assert choose(recipe, "daint", None).system.name == "daint"


def test_a_node_type_that_the_recipe_does_not_support_is_refused() -> None:
    with pytest.raises(BadInput, match="does not support host"):
        choose(load_recipe("pytorch-2.6"), "local", None)


def test_local_is_this_machine() -> None:
    choice = choose(load_recipe("hello"), None, None)

    node = choice.system.nodes[choice.uarch]
    assert choice.system.name == "local"
    assert "host" not in (node.target, node.os)

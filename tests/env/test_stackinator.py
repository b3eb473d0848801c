"""Test Stackinator recipes: the image's name, deployment and tests at a site."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.conftest import SMALL, Cli, Write
from uenvtool.env.plan import plan_environment
from uenvtool.env.stackinator import render_recipe
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.system import load_system

MINE = "extends: pytorch-2.9\ndescription: Mine.\n"


def rendered(recipe: str, system: str = "clariden", version: int = 2) -> dict[str, str]:
    loaded = load_system(system)
    return render_recipe(plan_environment(load_recipe(recipe), loaded, next(iter(loaded.nodes))), version)


def test_the_image_has_the_published_name_and_entry() -> None:
    files = rendered("pytorch-2.9")

    assert yaml.safe_load(files["config.yaml"])["name"] == "pytorch"
    assert yaml.safe_load(files["deployment.yaml"]) == {
        "pytorch": {
            "v2.9.1": {
                "recipes": {"gh200": "v2.9.1/gh200"},
                "deploy": {"clariden": ["gh200"], "daint": ["gh200"], "santis": ["gh200"]},
            }
        }
    }
    found = yaml.safe_load(files["extra/reframe.yaml"])["default"]
    assert {"cuda", "mpi", "nccl", "pytorch"} <= set(found["features"])
    assert (found["cc"], found["views"]) == ("mpicc", ["default"])
    assert "deployment.yaml" not in rendered("pytorch-2.9", "bristen")  # no cluster serves its node type


def test_a_recipe_that_extends_one_is_another_image_with_its_own_script(write: Write) -> None:
    write("recipes/mine/recipe.yaml", MINE + "deployment: {post_install: last.sh}\n")
    write("recipes/mine/last.sh", "#!/bin/bash\necho last\n")

    files = rendered("mine")

    assert yaml.safe_load(files["config.yaml"])["name"] == "mine"
    assert "deployment.yaml" not in files
    assert files["post-install"] == "#!/bin/bash\necho last\n"


@pytest.mark.parametrize("recipe", ["pytorch-2.6", "pytorch-2.9"])
def test_spack_and_its_packages_are_named_by_commit_and_not_by_a_tag(recipe: str) -> None:
    spack = yaml.safe_load(rendered(recipe)["config.yaml"])["spack"]

    for pin in (spack, spack["packages"]):
        assert re.fullmatch("[0-9a-f]{40}", pin["commit"])


@pytest.mark.parametrize(("version", "spec"), [(2, None), (3, "+clang ~gold")])
def test_further_compilers_stand_behind_the_one_that_builds_the_rest(
    write: Write, version: int, spec: str | None
) -> None:
    write("recipes/mine/recipe.yaml", MINE + "compilers: {llvm: {version: 19.1.7, variants: +clang ~gold}}\n")

    files = rendered("mine", version=version)

    compilers = yaml.safe_load(files["compilers.yaml"])
    assert (list(compilers), compilers["llvm"].get("spec")) == (["gcc", "llvm"], spec)
    assert ("does not support the variants +clang ~gold" in files["compilers.yaml"]) is (version == 2)
    assert yaml.safe_load(files["environments.yaml"])["mine"]["compiler"] == ["gcc", "llvm"]


@pytest.mark.parametrize("with_compilers", [True, False])
def test_the_view_has_the_compilers_where_the_recipe_wants_them(write: Write, with_compilers: bool) -> None:
    write("recipes/mine/recipe.yaml", MINE + f"view: {{add_compilers: {str(with_compilers).lower()}}}\n")

    view = yaml.safe_load(rendered("mine")["environments.yaml"])["mine"]["views"]["default"]

    assert view["uenv"]["add_compilers"] is with_compilers


def test_a_group_of_which_all_is_in_fields_of_its_own_is_not_named(write: Write) -> None:
    groups = "compiler: gcc@13.3.0\nmpi: {cray-mpich: '8.1:'}\ngroups:\n  fabric: {specs: [ucx]}"
    write("recipes/mine/recipe.yaml", SMALL.replace("groups:", groups, 1))

    text = rendered("mine")["environments.yaml"]

    assert yaml.safe_load(text)["mine"]["network"]["specs"] == ["ucx"]
    assert "fabric" not in text


@pytest.mark.parametrize(("tag", "told"), [("v1.1.0", True), ("v1.2.0", False)])
def test_a_spack_that_stackinator_7_cannot_use_is_told(cli: Cli, write: Write, tag: str, told: bool) -> None:
    pin = f"spack: {{url: https://github.com/spack/spack.git, tag: {tag}}}\n"
    write("recipes/mine/recipe.yaml", f"extends: pytorch-2.9\ndescription: A recipe of mine.\n{pin}")

    answer = cli("build", "mine", "--system", "clariden", "--format", "stackinator3", "-o", "out")

    assert answer.code == 0, answer.stderr
    assert ("Stackinator 7 needs Spack 1.2, but the recipe pins v1.1.0" in answer.stderr) is told


@pytest.mark.parametrize("folder", ["out of it", "/absolute"])
def test_what_a_check_proposes_mends_what_it_found(cli: Cli, place: Path, folder: str) -> None:
    out = f"{place}{folder}" if folder.startswith("/") else folder
    words = ("build", "pytorch-2.9", "--system", "bristen", "--format", "stackinator3", "-o", out)
    assert cli(*words).code == 0
    (Path(out) / "environments.yaml").unlink()

    checked = cli(*words, "--check")
    *_, command = re.findall(r"uenvtool (build [^`]*)", checked.stderr)

    assert checked.code == 1
    assert cli(*shlex.split(command)).code == 0
    assert cli(*words, "--check").code == 0

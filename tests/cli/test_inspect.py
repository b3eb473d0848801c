"""Test the output of list, show, diff, schema and --version."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.conftest import ROOT, SMALL, Cli, Write


def test_list_names_recipes_and_systems_without_the_abstract_ones(cli: Cli) -> None:
    data = json.loads(cli("list", "--json").stdout)

    assert {entry["name"] for entry in data["recipes"]} == {
        "hello",
        "pytorch-2.10",
        "pytorch-2.10-rocm",
        "pytorch-2.12",
        "pytorch-2.13",
        "pytorch-2.6",
        "pytorch-2.8",
        "pytorch-2.9",
    }
    assert {entry["name"] for entry in data["systems"]} >= {"clariden", "rcp", "local"}
    assert "alps" not in {entry["name"] for entry in data["systems"]}


def test_list_tells_what_users_name_and_where_the_rest_is_and_what_is_broken(cli: Cli, write: Write) -> None:
    write("recipes/broken/recipe.yaml", "description: [")
    Path("recipes/folder/recipe.yaml").mkdir(parents=True)

    answer = cli("list")

    lines = answer.stdout.splitlines()
    assert answer.code == 0
    assert [line.split()[0] for line in lines if line.endswith("  description")] == ["recipes", "systems"]
    assert lines[-1].startswith("use `uenvtool list KIND` to list these kinds: tuning, ")
    assert "recipes/broken/recipe.yaml:" in answer.stdout
    assert "hint: " not in answer.stdout  # of one file among others, in a cell of a table


def test_show_says_where_each_value_is_from(cli: Cli, write: Write) -> None:
    write("recipes/base/recipe.yaml", SMALL)
    write("recipes/mine/recipe.yaml", "extends: base\ndescription: mine\n")

    answer = cli("show", "mine")

    assert re.search(r"^description: mine +# recipes/mine/recipe.yaml:2$", answer.stdout, re.MULTILINE)
    assert re.search(r"^home: clariden +# recipes/base/recipe.yaml:2$", answer.stdout, re.MULTILINE)
    shown = yaml.safe_load(answer.stdout)
    assert shown == json.loads(cli("show", "mine", "--json").stdout)["values"]


@pytest.mark.parametrize("name", ["pytorch-2.6", "pytorch-2.9", "clariden", "rcp"])
def test_what_show_prints_is_yaml_of_the_same_data(cli: Cli, name: str) -> None:
    text, data = cli("show", name), json.loads(cli("show", name, "--json").stdout)

    assert yaml.load(text.stdout, Loader=yaml.BaseLoader).keys() == data["values"].keys()
    assert all(re.search(r":\d+$", origin) for origin in data["from"].values())


def test_diff_of_two_recipes(cli: Cli, write: Write) -> None:
    write("recipes/a/recipe.yaml", SMALL)
    write("recipes/b/recipe.yaml", SMALL.replace("- zlib-ng\n", "- zstd\n").replace("hdf5@1.14", "hdf5@1.12"))

    answer = cli("diff", "a", "b", "--json")

    assert answer.code == 1
    assert {(each["change"], each["package"]) for each in json.loads(answer.stdout)} == {
        ("no longer named", "zlib-ng"),  # it may still be there, as a dependency
        ("newly named", "zstd"),
        ("changed", "hdf5"),
    }
    assert cli("diff", "a", "a").code == 0
    write("recipes/a/recipe.yaml", SMALL + "prefer: {zlib-ng: 2.2.1}\n")
    write("recipes/b/recipe.yaml", "extends: a\nrequire: {zlib-ng: 2.2.4}\n")
    [change] = json.loads(cli("diff", "a", "b", "--json").stdout)
    assert (change["package"], change["before"], change["after"]) == ("zlib-ng", ["2.2.1"], ["2.2.4"])


LOCKS = "envs/pytorch-2.6/clariden-gh200", "envs/pytorch-2.9/clariden-gh200/spack.lock"
TABLE = "recipes/pytorch-2.6/published.yaml"
MOVED = {("changed", "protobuf"), ("changed", "boost"), ("removed", "py-wandb"), ("added", "lua")}
NAMED = {("no longer named", "protobuf"), ("newly named", "boost")}


@pytest.mark.parametrize(
    ("before", "after", "some", "kinds"),
    [
        (TABLE, LOCKS[0], set(), {"added", "changed", "removed"}),
        (*LOCKS, MOVED, {"added", "changed", "removed"}),
        ("pytorch-2.6", "pytorch-2.9", NAMED, {"changed", "newly named", "no longer named"}),
        ("pytorch-2.6", LOCKS[0], {("removed", "ucx")}, {"newly named", "removed"}),  # ucx is for other networks
        (TABLE, "pytorch-2.6", set(), {"added", "no longer named"}),
    ],
)
def test_diff_of_any_two_kinds_says_removed_only_where_no_lock_can_say_otherwise(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, before: str, after: str, some: set[tuple[str, str]], kinds: set[str]
) -> None:
    monkeypatch.chdir(ROOT)

    told, found = cli("diff", before, after), json.loads(cli("diff", before, after, "--json").stdout)

    assert (told.code, told.stdout[:6]) == (1, "change")
    assert ("a recipe names only the packages that it requests" in told.stderr) is ("pytorch-2.6" in (before, after))
    assert some <= {(each["change"], each["package"]) for each in found}
    assert {each["change"] for each in found} == kinds


@pytest.mark.parametrize("name", ["recipe", "system", "published"])
def test_a_schema_is_a_valid_draft_2020_12_schema_with_a_description_everywhere(cli: Cli, name: str) -> None:
    schema = json.loads(cli("schema", name).stdout)

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_files_name_their_schema_and_it_is_there() -> None:
    for path in [*ROOT.glob("recipes/*/*.yaml"), *ROOT.glob("knowledge/systems/*.yaml")]:
        named = path.read_text().splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / named).resolve().is_file(), path


@pytest.mark.parametrize("version", ["stackinator", "stackinator3"])
@pytest.mark.parametrize("recipe", ["pytorch-2.6", "pytorch-2.9"])
def test_a_stackinator_recipe_has_mpi_and_compilers_in_their_fields(cli: Cli, recipe: str, version: str) -> None:
    answer = cli("build", recipe, "--system", "clariden", "--format", version, "-o", "out")

    assert answer.code == 0, answer.stderr
    files = {
        name: yaml.safe_load(Path("out", name).read_text())
        for name in ("config.yaml", "compilers.yaml", "environments.yaml")
    }
    (environment,) = files["environments.yaml"].values()
    packages = [re.split(r"[@ +~]", spec)[0] for spec in environment["specs"]]
    assert files["config.yaml"]["version"] == (2 if version == "stackinator" else 3)
    assert "gcc" in files["compilers.yaml"]
    assert environment["network"]["mpi"].startswith("cray-mpich@")
    assert environment["deprecated"] is True  # torch 2.6 and 2.9 are, upstream
    assert not {"gcc", "cray-mpich", "cray-gtl", "libfabric"} & set(packages)
    assert {"py-torch", "nccl", "aws-ofi-nccl"} <= set(packages)
    assert environment["views"]["default"]["uenv"]["env_vars"]["set"]
    assert cli("build", recipe, "--system", "clariden", "--format", version, "-o", "out", "--check").code == 0

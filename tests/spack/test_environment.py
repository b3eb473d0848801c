"""Rendering: what stands in spack.yaml, and that it depends on the inputs alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, SMALL
from uenvtool.errors import BadInput
from uenvtool.knowledge import load_recipe
from uenvtool.model.system_reader import load_system
from uenvtool.spack.environment import Environment, plan_environment
from uenvtool.spack.manifest import render, render_manifest

Write = Callable[[str, str | bytes], Path]


def planned(recipe: str, system: str, uarch: str) -> Environment:
    return plan_environment(load_recipe(recipe), load_system(system), uarch)


def data(environment: Environment) -> Any:
    return yaml.safe_load(render_manifest(environment))["spack"]


@pytest.mark.parametrize(
    ("recipe", "system", "uarch", "architecture"),
    [
        ("pytorch-2.6", "clariden", "gh200", "os=sles15 target=neoverse_v2"),
        ("pytorch-2.6", "bristen", "a100", "os=sles15 target=zen3"),
        ("pytorch-2.9", "olivia", "gh200", "os=sles15 target=neoverse_v2"),
        ("pytorch-2.9", "rcp", "h100", "os=ubuntu22.04 target=x86_64_v3"),
    ],
)
def test_every_root_names_the_nodes_architecture(recipe: str, system: str, uarch: str, architecture: str) -> None:
    spack = data(planned(recipe, system, uarch))

    groups = {name for definition in spack["definitions"] for name in definition}
    matrix = spack["specs"][0]["matrix"]
    assert spack["definitions"][-1] == {"arch": [architecture]}
    assert {f"${name}" for name in groups - {"arch"}} == set(matrix[0])
    assert matrix[1] == ["$arch"]
    assert spack["concretizer"]["targets"] == {"host_compatible": False}


def test_dependencies_get_the_architecture_also_where_they_have_requirements_of_their_own() -> None:
    spack = data(planned("pytorch-2.6", "clariden", "gh200"))

    virtual = {"c", "cxx", "fortran", "mpi"}
    for name, settings in spack["packages"].items():
        if "require" in settings and name not in virtual and name != "all":
            assert "os=sles15 target=neoverse_v2" in settings["require"], name
    assert spack["packages"]["all"]["require"] == ["target=neoverse_v2", "os=sles15"]


def test_externals_carry_the_architecture() -> None:
    spack = data(planned("pytorch-2.6", "bristen", "a100"))

    specs = [external["spec"] for settings in spack["packages"].values() for external in settings.get("externals", [])]
    assert specs
    assert all(spec.endswith("os=sles15 target=zen3") for spec in specs)


def test_the_coupled_versions_are_required_where_the_recipe_leaves_them_open() -> None:
    packages = data(planned("pytorch-2.9", "clariden", "gh200"))["packages"]

    assert packages["py-triton"]["require"][0] == "@3.5.1"
    assert packages["py-torchvision"]["require"][0] == "@0.24.1"
    assert packages["py-torchaudio"]["require"][0] == "@2.9.1"


def test_published_versions_are_preferred_but_for_the_differences() -> None:
    packages = data(planned("pytorch-2.6", "clariden", "gh200"))["packages"]

    assert packages["abseil-cpp"] == {"version": ["=20240722.0"]}
    assert packages["cmake"] == {"version": ["=3.30.9"]}
    assert "curl" not in packages


def test_the_compiler_that_the_system_lacks_is_built_first() -> None:
    environment = planned("pytorch-2.6", "clariden", "gh200")
    files = render(environment)

    first = yaml.safe_load(files["compiler/spack.yaml"])["spack"]
    main = yaml.safe_load(files["spack.yaml"])["spack"]["packages"]
    assert first["packages"]["c"]["require"] == ["gcc@12.3.0"]
    assert first["packages"]["gcc:"]["externals"][0]["prefix"] == "/usr"
    assert main["gcc:"]["externals"][0]["prefix"] == "/user-environment/compilers/gcc-13.3.0"
    assert main["gcc:"]["buildable"] is False
    assert main["cxx"]["require"] == ["gcc@13.3.0"]


def test_roots_for_one_fabric_are_left_out_on_another() -> None:
    slingshot = {root.package for root in planned("pytorch-2.6", "clariden", "gh200").roots}
    roce = {root.package for root in planned("pytorch-2.6", "rcp", "a100").roots}

    assert "aws-ofi-nccl" in slingshot
    assert "aws-ofi-nccl" not in roce
    assert {"cray-mpich"} == slingshot & {"cray-mpich", "openmpi"}
    assert {"openmpi"} == roce & {"cray-mpich", "openmpi"}


def test_the_view_of_2_9_sets_no_pythonpath() -> None:
    env = data(planned("pytorch-2.9", "clariden", "gh200"))["env_vars"]

    assert set(env["unset"]) == {"PYTHONPATH", "NCCL_NET_PLUGIN"}
    assert env["set"]["PYTHONUSERBASE"] == "/user-environment/env/default"
    assert env["set"]["NCCL_PROTO"] == "^LL128"
    assert env["set"]["FI_CXI_DEFAULT_TX_SIZE"] == "16384"


def test_the_view_of_2_6_leaves_nccl_proto_alone() -> None:
    assert "NCCL_PROTO" not in data(planned("pytorch-2.6", "clariden", "gh200"))["env_vars"]["set"]


def test_every_value_that_a_view_sets_is_text() -> None:
    for recipe in ("pytorch-2.6", "pytorch-2.9"):
        values = data(planned(recipe, "clariden", "gh200"))["env_vars"]["set"].values()
        assert all(isinstance(value, str) for value in values)


def test_the_pinned_vulnerabilities_are_named_beside_the_setting_that_lets_them_in() -> None:
    environment = planned("pytorch-2.6", "clariden", "gh200")
    text = render_manifest(environment)

    assert "CVE-2025-46148" in text[text.index("config:") : text.index("deprecated: true")]
    assert "CVE-2025-32434" not in text  # fixed in 2.6.0
    assert {cve.id for cve in environment.cves} >= {"CVE-2025-46148", "CVE-2026-24747", "CVE-2025-71176"}


def test_the_same_inputs_give_the_same_bytes_from_any_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = render(planned("pytorch-2.9", "bristen", "a100"))
    monkeypatch.chdir("/")
    monkeypatch.setenv("USER", "somebody")

    assert render(planned("pytorch-2.9", "bristen", "a100")) == here
    for text in here.values():
        assert str(ROOT) not in text
        assert str(place) not in text


def test_clusters_of_one_kind_get_the_same_environment() -> None:
    clariden, santis = planned("pytorch-2.9", "clariden", "gh200"), planned("pytorch-2.9", "santis", "gh200")

    assert data(clariden) == data(santis)


def test_hostile_text_in_a_recipe_is_data(write: Write) -> None:
    hostile = 'it\'s "$(touch x)" `id` # no\\n: {a: [b]}'
    write("recipes/mine/recipe.yaml", SMALL)
    write("recipes/hostile/recipe.yaml", "extends: mine\nview: {env: {V: " + _quoted(hostile) + "}}\n")

    env = data(planned("hostile", "clariden", "gh200"))["env_vars"]

    assert env["set"]["V"] == hostile


def test_a_placeholder_without_a_value_is_refused_where_it_stands(write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL.replace("- zlib-ng", "- zlib-ng cuda_arch=${cuda_arhc}"))
    with pytest.raises(BadInput, match=r"recipes/mine/recipe.yaml:\d+:\d+: unknown fact 'cuda_arhc'"):
        planned("mine", "clariden", "gh200")


def test_ten_thousand_specs_are_all_rendered(write: Write) -> None:
    specs = "".join(f"    - pkg-{i}@1.{i} +shared\n" for i in range(10_000))
    write("recipes/large/recipe.yaml", SMALL.replace("    - zlib-ng\n", specs))

    definitions = data(planned("large", "clariden", "gh200"))["definitions"]

    assert len(definitions[0]["all"]) == 10_001


def test_a_mpi_that_the_recipe_has_no_version_of_is_refused() -> None:
    recipe = load_recipe("pytorch-2.6")
    system = dataclasses.replace(load_system("clariden"), mpi="mvapich")

    with pytest.raises(BadInput, match="has no version of mvapich"):
        plan_environment(recipe, system, "gh200")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("name", ["pytorch-2.6-gh200.yaml", "hello-a100.yaml"])
def test_the_golden_files(name: str, request: pytest.FixtureRequest) -> None:
    recipe, uarch = name.removesuffix(".yaml").rsplit("-", 1)
    system = {"gh200": "clariden", "a100": "bristen"}[uarch]
    golden = Path(__file__).parent / "golden" / name

    text = render_manifest(planned(recipe, system, uarch))

    assert text == golden.read_text(encoding="utf-8"), f"made by: uenvtool build {recipe} --system {system} --dry-run"

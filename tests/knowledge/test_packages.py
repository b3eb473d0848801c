"""Test that the facts in knowledge/packages apply to every recipe that has the package."""

from __future__ import annotations

import pytest

from tests.conftest import SMALL, Cli, Write
from uenvtool.knowledge.checks import coupled_pins, load_recipe
from uenvtool.knowledge.packages import package_facts

GROUP = "groups:\n  all: {{specs: [{}]}}\n"
OWN = "description: Ours.\ncves: [{id: CVE-2026-12345, package: zstd, versions: '1.5', fixed: 1.5.7}]\n"
YANKED = "yanked: [{package: zstd, versions: =1.5.5, reason: r}]\n"


def of_specs(*specs: str) -> str:
    before, _ = SMALL.split("groups:")
    return before + GROUP.format(", ".join(specs)) + "view: {link: all}\n"


def test_a_recipe_that_extends_no_other_has_the_known_couplings(write: Write) -> None:
    write("recipes/mine/recipe.yaml", of_specs("py-torch@2.9.1", "aws-ofi-nccl@1.18.0", "cuda@12.9"))

    pins = {name: str(pin.version) for name, (pin, _) in coupled_pins(load_recipe("mine")).items()}

    torch = {"py-triton": "3.5.1", "py-torchvision": "0.24.1", "py-torchaudio": "2.9.1"}
    assert pins == {**torch, "nccl": "2.27:", "libfabric": "1.22:", "cudnn": "8.8:9"}


def test_validate_and_build_apply_the_facts_to_a_recipe_that_extends_no_other(cli: Cli, write: Write) -> None:
    write("recipes/broken/recipe.yaml", of_specs("py-torch@2.9.1", "py-triton@3.4"))
    write("recipes/mine/recipe.yaml", of_specs("py-torch@2.9.1", "py-zarr@3.0.1"))

    broken, built = cli("validate", "recipes/broken"), cli("build", "mine", "--no-concretize")

    assert broken.code == 2
    assert "py-triton@3.4 is not compatible with py-torch@2.9.1, which needs py-triton@3.5.1" in broken.stderr
    assert "knowledge/packages/pytorch.yaml:" in broken.stderr
    assert built.code == 0, built.stderr
    assert "py-torch@2.9.1 has known vulnerabilities: CVE-2026-24747 (fixed in 2.10.0)" in built.stderr
    assert "py-zarr@3.0.1 was yanked by its developers" in built.stderr


def test_a_package_file_of_the_recipe_makes_a_coupled_version_buildable(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", of_specs("py-torch@2.15.0", "py-triton"))
    refused = cli("build", "mine", "--dry-run")
    write("recipes/mine/packages/py_triton/package.py", 'version("3.9.0", sha256="")\n')

    accepted = cli("build", "mine", "--dry-run")

    assert refused.code == 2
    assert "py-triton, which is coupled to py-torch@2.15.0, would not build" in refused.stderr
    assert "add py-triton@3.9.0 under packages/ of your own recipe" in refused.stderr
    assert accepted.code == 0, accepted.stderr


def test_a_file_of_the_user_adds_facts_and_a_broken_one_is_reported(cli: Cli, write: Write) -> None:
    write("packages/ours.yaml", OWN + YANKED)
    write("packages/broken.yaml", "description: Ours.\nsurprise: 1\n")
    write("recipes/mine/recipe.yaml", of_specs("zstd@1.5.5"))

    built, validated = cli("build", "mine", "--no-concretize"), cli("validate", "packages")

    assert built.code == 0, built.stderr
    assert "zstd@1.5.5 has known vulnerabilities: CVE-2026-12345 (fixed in 1.5.7)" in built.stderr
    assert "zstd@1.5.5 was yanked by its developers: r" in built.stderr
    assert "ignored: packages/broken.yaml:2:1: unknown key 'surprise'" in built.stderr
    assert (validated.code, "packages/ours.yaml: fine" in validated.stderr) == (2, True)


@pytest.mark.parametrize("name", ["pytorch", "ours"])
def test_a_coupling_of_the_user_replaces_the_known_one(write: Write, name: str) -> None:
    extends = "extends: pytorch\n" if name == "pytorch" else ""
    rule = "couplings: [{when: py-torch@2.9.1, then: {py-triton: 3.5.2}, reason: ours}]\n"
    write(f"packages/{name}.yaml", f"{extends}description: Ours.\n{rule}")

    rules = {rule.when.text: rule for rule in package_facts().couplings}

    assert (rules["py-torch@2.9.1"].reason, rules["py-torch@2.9.0"].then[0].package) == ("ours", "py-triton")

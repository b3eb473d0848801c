"""Test that activate, job, check, explain, doctor and container use the same variables for the same place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import ROOT, Cli
from tests.support.shells import run
from uenvtool.container.image import image_of
from uenvtool.container.plan import planned
from uenvtool.container.request import ContainerRequest
from uenvtool.doctor.variables import current_tuning
from uenvtool.knowledge.condition import parse_condition
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.lock import read_lock
from uenvtool.knowledge.settings import narrowed, settings_for

PLACES = [("clariden", "uenv", "pytorch-2.6"), ("clariden", "uenv", "pytorch-2.9"), ("bristen", "uenv", "pytorch-2.6"),
          ("clariden", "ce", "pytorch-2.9"), ("olivia", "apptainer", "pytorch-2.6")]  # fmt: skip


def wanted(system: str, runtime: str, recipe: str) -> dict[str, str]:
    """Return the variables that the settings set to one value, and those that they remove."""
    held = settings_for(system, runtime=runtime, recipe=recipe).held(inside=runtime == "ce")
    return {setting.name: setting.value or "" for setting in held if setting.removes or setting.is_fixed}


def of_activate(cli: Cli, *place: str) -> dict[str, str]:
    system, runtime, recipe = place
    form = "edf" if runtime == "ce" else "bash"
    words = ("--system", system, "--runtime", runtime, "--recipe", recipe, "--shell", form)
    answer = cli("activate", *words)
    assert answer.code == 0, answer.stderr
    if form == "edf":
        return {name: str(value) for name, value in tomlkit.parse(answer.stdout)["env"].items()}  # type: ignore[union-attr]
    removed = dict.fromkeys(re.findall(r"\bue_remove (\w+)", answer.stdout), "")
    lines = f"source /dev/stdin <<'END'\n{answer.stdout}\nEND\nSNAP\n"
    return {**removed, **run("bash", lines, dict.fromkeys(removed, "another")).env}


def of_job(cli: Cli, *place: str) -> dict[str, str]:
    system, runtime, recipe = place
    image = () if runtime == "apptainer" else ("--image", "some#image:v1" if runtime == "ce" else "some/v1:v1")
    words = ("--system", system, "--runtime", runtime, "--recipe", recipe, *image, "--account", "a", "--json")
    answer = cli("job", *words, "--", "true")
    assert answer.code == 0, answer.stderr
    return {name: value or "" for name, value in json.loads(answer.stdout)["variables"].items()}


def of_explain(cli: Cli, *place: str) -> dict[str, str]:
    system, runtime, recipe = place
    answer = cli("explain", "--system", system, "--runtime", runtime, "--recipe", recipe, "--json")
    assert answer.code == 0, answer.stderr
    found = json.loads(answer.stdout)
    return {entry["name"]: "" if entry["value"] == "removed" else entry["value"] for entry in found}


def of_doctor(cli: Cli, *place: str) -> dict[str, str]:
    system, runtime, recipe = place
    tuned, why = current_tuning({}, system=system, runtime=runtime, recipe=recipe, directories=(), python=None)
    assert tuned is not None, why
    return {setting.name: setting.value or "" for setting in tuned.settings if setting.removes or setting.is_fixed}


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
@pytest.mark.parametrize("door", [of_activate, of_job, of_explain, of_doctor])
def test_every_door_gives_the_same_variables(
    cli: Cli, place: tuple[str, str, str], door: Callable[..., dict[str, str]]
) -> None:
    expected = wanted(*place)

    given = door(cli, *place)

    assert expected
    assert {name: given.get(name) for name in expected} == expected


@pytest.mark.parametrize("lock", sorted(ROOT.glob("envs/*/*/spack.lock")), ids=lambda lock: "/".join(lock.parts[-3:-1]))
def test_a_recipe_that_ships_has_the_facts_of_its_lock_in_any_folder(place: Path, lock: Path) -> None:
    recipe, (system, uarch) = lock.parent.parent.name, lock.parent.name.rsplit("-", 1)

    elsewhere = settings_for(system, uarch=uarch, recipe=recipe).given

    resolved = read_lock(lock, str(lock)).versions()
    assert elsewhere == {fact: next(iter(resolved.get(known.package, ())), None) for fact, known in SOFTWARE.items()}


SIGNS = {
    "uenv": "#SBATCH --uenv={label}",
    "ce": "srun --environment=./x.toml true",
    "apptainer": "srun apptainer exec x.sif true",
}


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_the_check_takes_what_is_set_and_nothing_else(cli: Cli, tmp_path: Path, place: tuple[str, str, str]) -> None:
    system, runtime, recipe = place
    sign = SIGNS[runtime].format(label=recipe.replace("-", "/v") + ".0:v1")
    values = {name: value for name, value in wanted(*place).items() if re.fullmatch(r"[\w.^,:-]+", value)}
    script = tmp_path / "job.sh"

    def flawed(changed: dict[str, str]) -> set[str]:
        """Return the variables whose values check rejects."""
        script.write_text("\n".join(["#!/bin/bash", sign, *(f"export {name}={changed[name]}" for name in changed)]))
        found = json.loads(cli("check", "--system", system, "--json", str(script)).stdout)
        return {entry["detail"].partition(" is ")[0] for entry in found if entry["rule"] == "tuning-value"}

    assert flawed(values) == set()
    assert flawed(dict.fromkeys(values, "never")) == set(values)


def test_an_image_of_our_own_has_what_activate_sets_for_its_kind() -> None:
    plan = planned(ContainerRequest(recipe="ngc-pytorch-26.02-alps6"))
    nccl = plan.versions.get("nccl")
    facts = {"image": "alps", **({"nccl": nccl} if nccl else {})}
    held = settings_for(plan.system.name, facts=facts, runtime="ce").held()
    expected = {found.name: found.value for found in held if found.is_fixed}

    named = dict(
        re.findall(r'^(?:ENV|   ) ?(\w+)="(.*)"', image_of(plan, "again").files["Containerfile"], re.MULTILINE)
    )

    assert expected
    assert {name: named.get(name) for name in expected} == expected


def test_what_is_of_none_of_a_systems_node_types_is_not_set_there(cli: Cli) -> None:
    answer = cli("activate", "--system", "beverin")  # has two node types

    assert answer.code == 0
    assert "HSA_NO_SCRATCH_RECLAIM" in answer.stdout
    assert "GH200" not in answer.stdout.partition("ue_settings")[2]


@pytest.mark.parametrize(
    ("text", "runtimes", "left"),
    [
        ("runtime in uenv|ce|podman", ["uenv", "modules"], "runtime == uenv"),
        ("runtime in uenv|ce|podman", ["uenv", "ce", "modules"], "runtime in uenv|ce"),
        ("runtime in uenv|ce|podman", ["uenv", "ce"], "runtime"),
        ("runtime == uenv", ["uenv", "ce"], "runtime == uenv"),
        ("runtime != uenv", ["uenv", "ce"], "runtime != uenv"),
        ("uarch in a100|gh200", ["uenv", "ce"], "uarch in a100|gh200"),
    ],
)
def test_a_term_about_the_runtime_names_only_those_that_can_be(text: str, runtimes: list[str], left: str) -> None:
    (term,) = parse_condition(text).terms

    assert str(narrowed(term, runtimes)) == left

"""Test that the tuning files are complete and consistent, and that errors in a file have a position."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.conftest import Cli, Write
from uenvtool.core.errors import BadInput
from uenvtool.knowledge.checks import contradictions, load_tuning
from uenvtool.knowledge.condition import can_hold_together, parse_condition
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.recipe import read_recipe
from uenvtool.knowledge.settings import recipe_facts
from uenvtool.knowledge.system import load_system
from uenvtool.knowledge.tuning import EXPECTED, THE_HOOK, UNSET, load_all

SMALL = """\
description: Small.
sources:
  mine: {title: a page of ours, date: 2026-01}
variables:
  NCCL_NET:
    type: text
    says: {mine: x}
    settings:
    - {value: x, when: fabric == slingshot, reason: because, source: mine}
"""


def test_a_setting_is_what_its_source_says() -> None:
    tuning = load_all()
    says = {variable.name: variable.says for variable in tuning.variables}
    says |= {
        name: {**says[name], **{s: v for each in tuning.variables if each.name == name for s, v in each.says.items()}}
        for name in says
    }
    for setting in tuning.settings:
        assert setting.source.name in says[setting.name] or setting.policy in (UNSET, EXPECTED), setting.position
        if not setting.from_ and setting.policy != EXPECTED and setting.source.name in says[setting.name]:
            assert says[setting.name][setting.source.name] == setting.value, setting.position


def test_what_ships_contradicts_nobody() -> None:
    """A command does not look for it: so many pairs take 2 % of the start of `job`."""
    tuning = load_all()
    settings = tuning.settings

    for one, other in combinations(settings, 2):
        is_hooks = tuning.set_by(other) == THE_HOOK  # which may say the same
        if one.name == other.name and not (is_hooks and one.value == other.value):
            assert not can_hold_together(one.when, other.when), (one.position, other.position)
    assert list(contradictions(tuning)) == []


def test_what_a_variable_conflicts_with_is_known_and_says_so_too() -> None:
    conflicts = {setting.name: setting.conflicts for setting in load_all().settings if setting.conflicts}

    for name, others in conflicts.items():
        for other in others:
            assert name in conflicts[other]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("nccl < 2.27", "nccl >= 2.27", False),
        ("nccl <= 2.27", "nccl >= 2.27", True),
        ("nccl > 2.27", "nccl < 2.28", True),
        ("runtime == ce", "runtime != ce", False),
        ("runtime == ce", "runtime in uenv|ce", True),
        ("overlay", "not overlay", False),
        ("gpu", "fabric == roce", True),
        ("gpu == nvidia and nccl < 2.27", "gpu == amd and nccl < 2.27", False),
        ("runtime == ce and image != alps", "runtime == ce and not image", True),  # an image of somebody else's
        ("not container", "container", False),
    ],
)
def test_whether_conditions_can_hold_together(one: str, other: str, together: bool) -> None:
    assert can_hold_together(parse_condition(one), parse_condition(other)) is together


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("when: fabric == slingshot", "when: fabrik == slingshot", "9:24: unknown fact 'fabrik'"),
        ("when: fabric == slingshot", "when: nccl >= 2.27.3", "scripts can only compare MAJOR.MINOR"),
        ("source: mine}", "source: yours}", "unknown source 'yours'"),
        ("says: {mine: x}", "says: {his: x}", "unknown source 'his'"),
        ("type: text", "type: flag", "'x' is not 0 or 1"),
        ("type: text", "type: integer", "'x' is not a whole number"),
        ("type: text", "type: text\n    choices: [y, z]", "'x' is not one of y, z"),
        ("value: x, ", "", "policy default needs either `value` or `from`"),
        ("value: x, ", "value: x, policy: unset, ", "policy unset takes no value"),
        ("reason: because, ", "", "reason"),
        (
            "source: mine}",
            "source: mine}\n    - {value: y, reason: too, source: mine}",
            "both settings can apply at the same time",
        ),
        (
            "source: mine}",
            "source: mine, conflicts: [NCCL_NET_PLUGIN]}\n"
            "  NCCL_NET_PLUGIN:\n    type: text\n    says: {mine: x}\n"
            "    settings:\n    - {value: x, reason: too, source: mine}",
            "NCCL_NET_PLUGIN conflicts with NCCL_NET",
        ),
        (
            "source: mine}",
            "source: mine}\nworkarounds:\n"
            "  slow:\n    symptom: slow\n    cost: none\n    source: mine\n    set: {NCCL_PROTOO: x}",
            "unknown variable 'NCCL_PROTOO'",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(before: str, after: str, said: str, write: Write) -> None:
    path = write("wrong.yaml", SMALL.replace(before, after))

    with pytest.raises(BadInput) as caught:
        load_tuning([str(path)])

    assert said in str(caught.value)
    assert all(problem.position for problem in caught.value.problems)


def test_a_recipe_gives_the_versions_that_it_asks_for() -> None:
    system = load_system("clariden")

    old = recipe_facts(read_recipe("pytorch-2.6"), system, "gh200")
    new = recipe_facts(read_recipe("pytorch-2.9"), system, "gh200")

    assert (old["nccl"], old["nvshmem"]) == ("2.26.2-1", None)
    assert str(new["nccl"]).startswith("2.29")
    assert str(new["libfabric"]).startswith("2.4")
    assert set(old) == set(SOFTWARE)
    of_olivia = recipe_facts(read_recipe("pytorch-2.9"), load_system("olivia"), "gh200")
    assert of_olivia["libfabric"] == "2.3.1"  # what the system brings decides first


RESOLVED = {"nccl": ["2.29.2-1"], "aws-ofi-nccl": ["1.18.0"], "libfabric": ["2.4.0-dev"], "cuda": ["12.9.1"],
            "py-torch": ["2.9.1"], "nvshmem": ["3.4.5"]}  # fmt: skip


def test_the_versions_of_a_lock_are_the_facts_where_it_is_of_this_state_of_the_recipe() -> None:
    recipe, clariden = read_recipe("pytorch-2.9"), load_system("clariden")

    known = recipe_facts(recipe, clariden, "gh200", RESOLVED)

    assert (known["nvshmem"], known["libfabric"]) == ("3.4.5", "2.4.0-dev")
    for stale in ({"nccl": ["2.28.3-1"]}, {"libfabric": ["1.22.0"]}, {"nvshmem": []}):
        of_another = recipe_facts(recipe, clariden, "gh200", {**RESOLVED, **stale})
        assert of_another == recipe_facts(recipe, clariden, "gh200")


@pytest.mark.parametrize(
    ("recipe", "cross_nic", "pxn_disable", "source"),
    [("pytorch-2.12", "1", "not set", "docs-2026"), ("pytorch-2.13", "0", "1", "uenv-2.13")],
)
def test_the_versions_of_nccl_and_libfabric_select_the_values_for_alps(
    recipe: str, cross_nic: str, pxn_disable: str, source: str, cli: Cli
) -> None:
    answer = cli("explain", "NCCL_CROSS_NIC", "--system", "clariden", "--recipe", recipe).stdout
    assert f"on clariden, in uenv: {cross_nic}\n" in answer
    assert f"source:  {source}" in answer
    answer = cli("explain", "NCCL_PXN_DISABLE", "--system", "clariden", "--recipe", recipe).stdout
    assert f"on clariden, in uenv: {pxn_disable}" in answer


def test_a_users_own_file_counts_beside_the_others(cli: Cli, write: Write) -> None:
    write("tuning/mine.yaml", SMALL.replace("NCCL_NET:", "MY_OWN:"))

    answer = cli("explain", "MY_OWN")

    assert answer.code == 0
    assert "a page of ours, 2026-01" in answer.stdout

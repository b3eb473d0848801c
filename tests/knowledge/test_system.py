"""Test that this machine is recognized by the signs in a system file."""

from __future__ import annotations

from tests.conftest import Write
from uenvtool.knowledge.recognise import recognised


def test_a_machine_is_recognised_by_a_variable_with_its_value() -> None:
    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"CLUSTER_NAME": "elsewhere"}) is None


def test_a_machine_is_recognised_by_what_a_file_of_its_says(write: Write) -> None:
    """As /etc/xthostname on Alps, which ends with a line break."""
    name = write("xthostname", "ours\n")
    for system, value in (("other", "theirs"), ("mine", "ours")):
        write(f"systems/{system}.yaml", f"extends: clariden\nrecognise:\n- {{file: {name}, value: {value}}}\n")

    assert recognised({}) == ("mine", f"{name} contains ours")
    name.write_text("elsewhere")
    assert recognised({}) is None


def test_a_copy_of_a_system_takes_its_machine_over_under_its_own_name_alone(write: Write) -> None:
    """A sign of its own comes before those that ship, which say less of a site that has them too."""
    write("systems/aaa.yaml", "extends: rcp\nrecognise:\n- {env: CLUSTER_NAME, value: clariden}\n- {env: OURS}\n")

    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"RUNAI_NUM_OF_GPUS": "4", "OURS": "1"}) == ("aaa", "OURS=1")

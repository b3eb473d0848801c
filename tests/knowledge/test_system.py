"""This machine is recognised by the signs in a system's own file."""

from __future__ import annotations

from tests.conftest import Write
from uenvtool.knowledge.system import recognised


def test_a_machine_is_recognised_by_a_variable_with_its_value() -> None:
    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"CLUSTER_NAME": "elsewhere"}) is None


def test_a_machine_is_recognised_by_what_a_file_of_its_says(write: Write) -> None:
    """As /etc/xthostname on Alps, which ends with a line break."""
    name = write("xthostname", "ours\n")
    for system, value in (("other", "theirs"), ("mine", "ours")):
        write(f"systems/{system}.yaml", f"extends: clariden\nrecognise:\n- {{file: {name}, value: {value}}}\n")

    assert recognised({}) == ("mine", f"{name} says ours")
    name.write_text("elsewhere")
    assert recognised({}) is None

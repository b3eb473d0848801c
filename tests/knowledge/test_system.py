"""This machine is recognised by the signs in a system's own file."""

from __future__ import annotations

from uenvtool.knowledge.system import recognised


def test_a_machine_is_recognised_by_a_variable_with_its_value() -> None:
    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"CLUSTER_NAME": "elsewhere"}) is None

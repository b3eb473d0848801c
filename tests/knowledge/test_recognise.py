"""This machine is recognised by the signs in a file, of which no more is read than has them."""

from __future__ import annotations

import pytest

from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.recognise import _tree, markers, recognised
from uenvtool.knowledge.source import read


@pytest.mark.parametrize("name", available(SYSTEM, own=False))
def test_the_signs_of_a_file_that_ships_are_those_of_the_whole_file(name: str) -> None:
    location = available(SYSTEM, own=False)[name]

    assert list(markers(_tree(location))) == list(markers(read(location.path, location.shown)))


def test_a_machine_is_recognised_by_a_variable_with_its_value() -> None:
    assert recognised({"CLUSTER_NAME": "clariden"}) == ("clariden", "CLUSTER_NAME=clariden")
    assert recognised({"CLUSTER_NAME": "elsewhere"}) is None

"""Value classes are made, compared and shown as dataclasses are, whose `__init__` they compile when it is needed."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from uenvtool.core.value import value_class


@value_class
class Named:
    a: int
    b: list[int] = dataclasses.field(default_factory=list)
    c: str = "c"


@value_class(kw_only=False)
class Placed:
    a: int
    b: str = "b"
    c: int = dataclasses.field(default=0, kw_only=True)


@value_class
class Below(Named):
    d: int = 4


@value_class
class Computed:
    text: str
    size: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.text)


def test_a_value_has_its_fields_and_defaults_of_its_own() -> None:
    first, second = Named(a=1), Named(a=1)

    first.b.append(2)

    assert (first.b, second.b, second.c) == ([2], [], "c")
    assert dataclasses.replace(first, c="d") == Named(a=1, b=[2], c="d")
    assert hash(Placed(1)) == hash(Placed(1, "b", c=0))


@pytest.mark.parametrize("value", [Placed(1, "x"), Placed(1, b="x"), Placed(a=1, b="x", c=0)])
def test_fields_are_given_by_place_or_by_name(value: Placed) -> None:
    assert (value.a, value.b, value.c) == (1, "x", 0)
    assert repr(value) == "Placed(a=1, b='x', c=0)"


@pytest.mark.parametrize(
    ("kind", "values", "named", "message"),
    [
        (Named, (), {}, "missing 1 required keyword-only argument: 'a'"),
        (Named, (1,), {}, "takes 1 positional argument but 2 were given"),
        (Placed, (1,), {"d": 2}, "unexpected keyword argument 'd'"),
        (Placed, (1, "x", 3), {}, "takes from 2 to 3 positional arguments but 4 were given"),
        (Computed, (), {"text": "x", "size": 2}, "unexpected keyword argument 'size'"),
    ],
)
def test_a_wrong_field_is_an_error_for_the_first_value_and_for_later_ones(
    kind: Any, values: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=message):
            kind(*values, **named)


def test_a_class_below_has_an_init_of_its_own() -> None:
    assert (Below(a=1).d, Named(a=1).c, Below(a=1, d=5).d) == (4, "c", 5)
    assert Below(a=1) != Named(a=1)


def test_a_field_can_be_computed() -> None:
    assert [Computed(text=text).size for text in ("", "abc")] == [0, 3]


def test_a_value_can_be_pickled_before_and_after_others_are_made() -> None:
    assert pickle.loads(pickle.dumps(Placed(1))) == Placed(1)


def test_a_class_that_threads_use_at_once_has_all_its_fields() -> None:
    def made_in_threads(_: int) -> list[Any]:
        @value_class
        class Wide:
            a: int
            b: list[int] = dataclasses.field(default_factory=list)

        with ThreadPoolExecutor(8) as threads:
            return [dataclasses.astuple(value) for value in threads.map(lambda a: Wide(a=a), range(8))]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        assert [made_in_threads(number) for number in range(20)] == [[(a, []) for a in range(8)]] * 20
    finally:
        sys.setswitchinterval(interval)

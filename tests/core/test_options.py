"""Test `core/options.py`: the fields of a request define the options of a command, which fill the request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner

from uenvtool.core.options import WithProgram, command, given, marked_options, option_name
from uenvtool.core.result import Result


@dataclass(frozen=True)
class Price:
    euros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to."), Price(5)] = None
    from_: Annotated[tuple[str, ...], typer.Option("--from", metavar="PLACE", help="Where from."), Price(3)] = ()
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing."), Price(0)] = False
    resolve: Annotated[bool | None, typer.Option("--resolve/--no-resolve", help="Resolve it.")] = None
    form: Annotated[Literal["short", "long"], typer.Option("--form", help="How long.")] = "short"
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="How many.")] = None
    words: Annotated[tuple[str, ...], typer.Argument(metavar="-- COMMAND...", help="What runs.")] = ()
    known: str = "no option"


seen: list[Order] = []


@command(Order)
def make(order: Order) -> Result:
    """Make it."""
    seen.append(order)
    return Result(text="made", data={"made": True})


APP = typer.Typer(rich_markup_mode=None)
APP.command(cls=WithProgram)(make)


def ordered(*words: str) -> Order:
    answer = CliRunner().invoke(APP, words, standalone_mode=False)
    assert answer.exception is None, answer.exception
    return seen.pop()


def test_a_request_has_what_the_words_say() -> None:
    words = ["a", "-o", "x", "--from", "b", "--from", "c", "--dry-run", "--no-resolve", "--form", "long", "-n", "2"]

    order = ordered(*words, "--", "python", "-c")
    wanted = Order(
        name="a", output=Path("x"), from_=("b", "c"), dry_run=True, resolve=False, form="long", count=2,
        words=("python", "-c"),
    )  # fmt: skip
    assert order == wanted


@pytest.mark.parametrize(
    "order",
    [
        Order(name="a"),
        Order(name="a", output=Path("x y"), from_=("b", "c"), dry_run=True),
        Order(name="a", resolve=False, form="long", count=3),
        Order(name="a", resolve=True),
    ],
)
def test_the_words_of_a_request_give_it_again(order: Order) -> None:
    assert ordered(*given(order)) == order


@pytest.mark.parametrize(
    ("field", "name"), [("dry_run", "--dry-run"), ("from_", "--from"), ("resolve", "--resolve"), ("output", "--output")]
)
def test_the_name_of_an_option_is_the_declared_one(field: str, name: str) -> None:
    assert option_name(Order, field) == name


def test_the_given_options_have_their_marks() -> None:
    order = Order(name="a", from_=("b",), dry_run=True)

    assert [*marked_options(order, Price)] == [("--from", ("b",), Price(3)), ("--dry-run", True, Price(0))]

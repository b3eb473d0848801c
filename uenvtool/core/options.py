"""Makes a Typer command of a request: a dataclass whose fields say their options as a function's parameters would.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Order:
        output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to write.")] = None

    @app.command()
    @command(Order)
    def order(request: Order) -> Result: ...

A field without an option is none of the command's.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo, ParameterInfo

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from uenvtool.core.result import Result

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
WORDS = "words"
"""The field of a request that takes the words behind `--`; see `WithProgram`."""

Request = TypeVar("Request", bound="DataclassInstance")
Run = Callable[[Request], "Result | None"]


def command(request: type[Request], *, json: bool = True) -> Callable[[Run[Request]], Callable[..., int]]:
    """Return a decorator: the command whose arguments fill a request, and which prints the result of the function.

    The function's docstring is the command's help. json: with the option --json. No result prints nothing.
    """

    def decorate(function: Run[Request]) -> Callable[..., int]:
        def run(json_: bool = False, **values: Any) -> int:
            from uenvtool.core import console

            frozen = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
            result = function(request(**frozen))
            return console.show(result, as_json=json_) if result else 0

        parameters = [
            _parameter(field.name, _of_typer(hint), default=field.default) for field, hint in _options(request)
        ]
        if json:
            parameters.append(_parameter("json_", Json, default=False))
        shown: Any = run
        shown.__signature__ = inspect.Signature(parameters)  # which inspect reads (PEP 362)
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        return run

    return decorate


def given(request: DataclassInstance) -> Iterator[str]:
    """Yield the options and arguments of a request that are not at their defaults, as words that give them again.

    What stands behind `--` is not among them.
    """
    for field, hint in _options(type(request)):
        value = getattr(request, field.name)
        if field.name == WORDS or value in (None, field.default):
            continue
        _, info = typing.get_args(hint)
        values = [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
        if not isinstance(info, OptionInfo):
            yield from values
            continue
        option = _long_name(info)
        if isinstance(value, bool):  # of a switch, `--this/--that`
            yield option.split("/")[0 if value else -1]
        else:
            for item in values:
                yield from [f"{option}={item}"] if item.startswith("-") else [option, item]


class WithProgram(TyperCommand):
    """A command that starts a program of the user's, whose words stand behind `--`: its last argument, `words`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take what stands behind `--` word by word, and refuse a program that stands before it."""
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        if before := ctx.params[WORDS]:
            ctx.fail(f"Got unexpected extra arguments ({' '.join(before)})")
        ctx.params[WORDS] = args[end + 1 :]
        return rest


def _options(request: type[DataclassInstance]) -> Iterator[tuple[dataclasses.Field[Any], Any]]:
    """Yield the fields that are options or arguments, each with its annotation."""
    hints = typing.get_type_hints(request, include_extras=True)
    for field in dataclasses.fields(request):
        if any(isinstance(mark, ParameterInfo) for mark in typing.get_args(hints[field.name])):
            yield field, hints[field.name]


def _of_typer(hint: Any) -> Any:
    """Return an annotation as Typer takes it: with a list in place of a tuple of any length."""
    kind, info = typing.get_args(hint)
    if typing.get_origin(kind) is not tuple:
        return hint
    item, _ = typing.get_args(kind)
    marked: Any = Annotated  # of a type that is known when it runs
    return marked[types.GenericAlias(list, (item,)), info]


def _parameter(name: str, annotation: Any, *, default: Any) -> inspect.Parameter:
    missing = inspect.Parameter.empty if default is dataclasses.MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=missing, annotation=annotation)


def _long_name(info: OptionInfo) -> str:
    """Return an option's name as `--name`, or `--this/--that`; Typer keeps the first of its names as `default`."""
    return next(str(name) for name in (info.default, *(info.param_decls or ())) if str(name).startswith("--"))

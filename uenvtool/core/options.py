"""Creates a Typer command from a request, a dataclass whose fields define the options of the command.

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Order:
        output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to write.")] = None

    @app.command()
    @command(Order)
    def order(request: Order) -> Result: ...

A field without an option or argument is not part of the command line. An annotation can also contain a marker object
for checks of the request; see `marked_options`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType, OptionInfo, ParameterInfo

from uenvtool.core.errors import BadInput

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from uenvtool.core.result import Result

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
WORDS = "words"
"""The field of a request that contains the arguments after `--`; see `WithProgram`."""

Request = TypeVar("Request", bound="DataclassInstance")
Mark = TypeVar("Mark")
Run = Callable[[Request], "Result | None"]


def command(request: type[Request], *, json: bool = True) -> Callable[[Run[Request]], Callable[..., int]]:
    """Return a decorator that turns a function with a request parameter into a command that prints its result.

    The docstring of the function is the help of the command. json: add the option --json. If the function returns
    None, the command prints nothing.
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
        shown.__signature__ = inspect.Signature(parameters)  # Typer reads it through inspect (PEP 362)
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        return run

    return decorate


def given(request: DataclassInstance) -> Iterator[str]:
    """Yield the options and arguments that differ from their defaults, as typed, without the arguments after `--`."""
    for field, hint in _options(type(request)):
        value = getattr(request, field.name)
        if field.name == WORDS or value in (None, field.default):
            continue
        info = _info(hint)
        values = [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
        if not isinstance(info, OptionInfo):
            yield from values
            continue
        option = _long_name(info)
        if isinstance(value, bool):  # a switch may be declared as `--this/--that`
            yield option.split("/")[0 if value else -1]
        else:
            for item in values:
                yield from [f"{option}={item}"] if item.startswith("-") else [option, item]


def option_name(request: type[DataclassInstance], field: str) -> str:
    """Return the command-line option of a field, such as `--node-type` for `node_type`."""
    info = next(_info(hint) for known, hint in _options(request) if known.name == field)
    return _long_name(info).split("/")[0]


def marked_options(request: Request, kind: type[Mark]) -> Iterator[tuple[str, Any, Mark]]:
    """Yield the name, value and marker of each option whose value differs from its default.

    kind: the type of the marker, an additional value in the annotation of an option. Arguments have no marker.
    """
    for field, hint in _options(type(request)):
        value = getattr(request, field.name)
        if value != field.default and isinstance(_info(hint), OptionInfo):
            mark = next(mark for mark in typing.get_args(hint) if isinstance(mark, kind))
            yield option_name(type(request), field.name), value, mark


class WithSingleValues(TyperCommand):
    """A command that rejects a second value of an option that has one value, instead of using the last one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raise BadInput if an option with one value is repeated."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        options = (parameter for parameter in order if isinstance(parameter, TyperOption))
        for parameter in options:
            may_repeat = parameter.multiple or (parameter.is_flag and not parameter.secondary_opts)
            if not may_repeat and order.count(parameter) > 1:
                name = "/".join([max(parameter.opts, key=len), *parameter.secondary_opts])
                raise BadInput(f"{name} is given {order.count(parameter)} times", hint=f"give {name} once")
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """A group of commands that reject a repeated option that accepts only one value. Each `cli.py` uses it."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Return Typer's decorator for a command of this group."""
        return super().command(name, cls=cls or WithSingleValues, **settings)


class WithProgram(WithSingleValues):
    """A command that starts the user's own program, which follows `--` and fills the last argument, `words`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Store the arguments after `--` unchanged, and reject a program before `--`."""
        end = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:end])
        if before := ctx.params[WORDS]:
            ctx.fail(f"Got unexpected extra arguments ({' '.join(before)})")
        ctx.params[WORDS] = args[end + 1 :]
        return rest


@functools.cache
def _options(request: type[DataclassInstance]) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    hints = typing.get_type_hints(request, include_extras=True)
    fields = ((field, hints[field.name]) for field in dataclasses.fields(request))
    return tuple((field, hint) for field, hint in fields if _info(hint))


def _info(hint: Any) -> Any:
    return next((mark for mark in typing.get_args(hint) if isinstance(mark, ParameterInfo)), None)


def _of_typer(hint: Any) -> Any:
    # Typer accepts only its own marks, and accepts lists but no tuples.
    kind, info = typing.get_args(hint)[0], _info(hint)
    if typing.get_origin(kind) is tuple:
        kind = types.GenericAlias(list, typing.get_args(kind)[:1])
    marked: Any = Annotated  # mypy does not accept a type that is known only at run time
    return marked[kind, info]


def _parameter(name: str, annotation: Any, *, default: Any) -> inspect.Parameter:
    missing = inspect.Parameter.empty if default is dataclasses.MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=missing, annotation=annotation)


def _long_name(info: OptionInfo) -> str:
    # Typer stores the first declared name in `default`.
    return next(str(name) for name in (info.default, *(info.param_decls or ())) if str(name).startswith("--"))

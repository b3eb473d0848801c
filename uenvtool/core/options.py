"""Makes a command of a request's dataclass, where each field says its option once; and commands with verbs.

A field is an option by its annotation, in typer's own words; its name gives the long option:

    output: Annotated[Path | None, typer.Option("-o", metavar="DIR", help="Where to write.")] = None
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo, ParameterInfo

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from uenvtool.core.result import Result

BEHIND = "uenvtool.words"
"""Marks the field that takes the words behind `--`, None if there is no `--`; a context has them under this key."""
JSON = typer.Option(False, "--json", help="Print the result as JSON.")

Request = TypeVar("Request", bound="DataclassInstance")
Run = Callable[[Request], "Result | None"]
Words = Callable[[list[str]], Iterable[str]]


def command(request: type[Request], *, json: bool = True) -> Callable[[Run[Request]], Callable[..., int]]:
    """Return a decorator: the command whose arguments fill a request, and which prints the result of the function.

    The function's docstring is the command's help. json: with the option --json. No result prints nothing.
    """

    def decorate(function: Run[Request]) -> Callable[..., int]:
        def run(context: typer.Context, json_: bool = False, **values: Any) -> int:
            from uenvtool.core import console

            values |= {name: context.meta.get(BEHIND) for name in behind}
            result = function(request(**{name: _plain(value) for name, value in values.items()}))
            return console.show(result, as_json=json_) if result else 0

        behind = [name for name, marks in _annotated(request) if BEHIND in marks]
        parameters = [_parameter("context", typer.Context), *_parameters(request)]
        if json:
            parameters.append(_parameter("json_", bool, JSON))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {}
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        return run

    return decorate


def given(request: DataclassInstance) -> Iterator[str]:
    """Yield the options and arguments of a request that are not at their defaults, as words that give them again."""
    hints = dict(_annotated(type(request)))
    for field in dataclasses.fields(request):
        info = next((mark for mark in hints.get(field.name, ()) if isinstance(mark, ParameterInfo)), None)
        value = getattr(request, field.name)
        if info is None or value in (None, field.default):
            continue
        if not isinstance(info, OptionInfo):
            yield from map(str, value if isinstance(value, tuple) else [value])
            continue
        option = next(name for name in _names(info, field.name) if name.startswith("--"))
        if isinstance(value, bool):  # of a switch, `--this/--that`
            yield option.split("/")[0 if value else -1]
        else:
            for item in map(str, value if isinstance(value, tuple) else [value]):
                yield from [f"{option}={item}"] if item.startswith("-") else [option, item]


def _parameters(request: type[DataclassInstance]) -> Iterator[inspect.Parameter]:
    hints = typing.get_type_hints(request, include_extras=True)
    for field in dataclasses.fields(request):
        kind, *marks = typing.get_args(hints[field.name]) or (hints[field.name],)
        info = next((mark for mark in marks if isinstance(mark, ParameterInfo)), None)
        if info is None:
            continue
        info = copy.copy(info)
        info.param_decls = _names(info, field.name) if isinstance(info, OptionInfo) else info.param_decls
        info.default = ... if field.default is dataclasses.MISSING else field.default
        yield _parameter(field.name, _as_typer(field.name, kind), info)


def _annotated(request: type[DataclassInstance]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for name, hint in typing.get_type_hints(request, include_extras=True).items():
        yield name, getattr(hint, "__metadata__", ())


def _names(info: ParameterInfo, field: str) -> tuple[str, ...]:
    """Return the names of an option: those that it says, and its field's if none of these is long."""
    names = tuple(name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str) and name)
    has_long = any(name.startswith("--") for name in names)
    return names if has_long else (f"--{field.strip('_').replace('_', '-')}", *names)


def _as_typer(name: str, kind: Any) -> Any:
    """Return a type as typer knows it: a list for a tuple of any length, an Enum for words to choose from."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return list[arguments[0]]  # type: ignore[valid-type]
    if origin is Literal:
        return Enum(name, {word: word for word in arguments}, type=str)
    if type(None) in arguments:
        return _as_typer(name, next(part for part in arguments if part is not type(None))) | None
    return kind


def _plain(value: Any) -> Any:
    """Return a value of typer's as one of a request: unchanging, and without Enum."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return value.value if isinstance(value, Enum) else value


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def with_verbs(
    verbs: Mapping[str, Callable[..., int]], *, words: Words = list, keep_behind: bool = False
) -> type[TyperCommand]:
    """Return a class of commands whose first word may be one of the verbs.

    words: changes the words of the command itself before they are read. keep_behind: what stands behind `--` is
    no argument of the command, but handed on in the context, see BEHIND.
    """
    apps = {name: _app(function) for name, function in verbs.items()}

    class WithVerbs(TyperCommand):
        """The command itself, or the verb that its first word names."""

        verbs: ClassVar[Mapping[str, typer.Typer]] = apps

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            if args and args[0] in apps:
                verb = typer.main.get_command(apps[args[0]])
                return verb.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
            end = args.index("--") if keep_behind and "--" in args else len(args)
            context = super().make_context(info_name, list(words(args[:end])), parent=parent, **extra)
            context.meta[BEHIND] = args[end + 1 :] if end < len(args) else None
            return context

    return WithVerbs


class WholeSentences(TyperGroup):
    """A group of commands, whose help has the sentence of each whole: the library cuts them at a line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the options."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(1000)) for name, command in self.commands.items()])


def _app(function: Callable[..., int]) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.command()(function)
    return app

"""Makes value classes: dataclasses that nobody changes, and that cost little to make.

`dataclass(frozen=True)` compiles six methods for each class. A hundred classes were a third of what `uenvtool job`
took, start and all. A value class becomes a dataclass with its first value, as of half of the classes a command makes
none. It has one method of its own then, `__init__`; the others are shared, and mypy keeps values from being changed.
"""

from __future__ import annotations

import _thread
import dataclasses
import functools
import inspect
from collections.abc import Callable
from operator import attrgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[T], T]:
        """Return what leaves a function as it is: only type checkers read the mark, and Python has it from 3.11 on."""
        return lambda function: function


T = TypeVar("T")


@overload
def value_class(cls: type[T], /) -> type[T]: ...
@overload
def value_class(*, kw_only: bool) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def value_class(cls: Any = None, /, *, kw_only: bool = True) -> Any:
    """Return the class as a value class: compared, hashed and shown by its fields.

    kw_only: its fields are named when a value is made.
    """
    if cls is None:
        return lambda cls: _made(cls, kw_only)
    return _made(cls, kw_only)


@functools.cache
def types_of_fields(kind: type) -> dict[str, Any]:
    """Return the types of a class's fields, also those that it inherits, with what `Annotated` says of them."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= inspect.get_annotations(base, eval_str=True)
    return found


_ONE_AT_A_TIME = _thread.RLock()
"""Held while a class becomes a dataclass, and those that it inherits from."""


class _Fields:
    """Stands for the fields of a value class until somebody asks: of half of the classes a command makes no value."""

    def __init__(self, cls: type, kw_only: bool) -> None:
        self.cls, self.kw_only = cls, kw_only

    def __get__(self, value: object, owner: type) -> dict[str, Any]:
        with _ONE_AT_A_TIME:
            if self.cls.__dict__["__dataclass_fields__"] is self:  # else another thread was first
                dataclasses.dataclass(kw_only=self.kw_only, init=False, eq=False, repr=False)(self.cls)
        found: dict[str, Any] = self.cls.__dataclass_fields__  # type: ignore[attr-defined]
        return found


def _made(cls: Any, kw_only: bool) -> type:
    def first(self: object, *values: Any, **named: Any) -> None:
        cls.__init__ = _init(cls)
        cls.__init__(self, *values, **named)

    cls.__dataclass_fields__ = _Fields(cls, kw_only)
    for name, method in (("__init__", first), ("__eq__", _equals), ("__hash__", _hashed), ("__repr__", _shown)):
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return cls  # type: ignore[no-any-return]


@functools.cache
def _comparer(cls: Any) -> Callable[[object], Any]:
    """Return what takes from a value the fields by which it is compared."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    return attrgetter(*names) if names else type


def _compared(value: Any) -> Any:
    return _comparer(value.__class__)(value)


def _equals(self: object, other: object) -> bool:
    return bool(_compared(self) == _compared(other)) if type(other) is type(self) else NotImplemented


def _hashed(self: object) -> int:
    return hash(_compared(self))


def _shown(self: Any) -> str:
    values = ", ".join(
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({values})"


def _init(cls: Any) -> Any:
    """Return the `__init__` that dataclass would have made of the fields."""
    missing = dataclasses.MISSING
    fields = [field for field in dataclasses.fields(cls) if field.init]  # `__post_init__` sets the others
    placed, named = [[field for field in fields if field.kw_only is by_name] for by_name in (False, True)]
    made = {field.name: field.default_factory for field in fields if field.default_factory is not missing}

    def complete(self: Any) -> None:
        for name, make in made.items():
            if getattr(self, name) is missing:
                setattr(self, name, make())
        if has_post:
            self.__post_init__()

    has_post = hasattr(cls, "__post_init__")
    code = _code(len(placed), len(named), bool(made) or has_post)
    names = {f"f{index}": field.name for index, field in enumerate([*placed, *named])}
    code = code.replace(
        co_varnames=tuple(names.get(name, name) for name in code.co_varnames),
        co_names=tuple(names.get(name, name) for name in code.co_names),
    )
    init = FunctionType(code, {"complete": complete})
    init.__defaults__ = tuple(field.default for field in placed if field.default is not missing or field.name in made)
    init.__kwdefaults__ = {
        field.name: field.default for field in named if field.default is not missing or field.name in made
    }
    return init


@functools.cache
def _code(placed: int, named: int, has_more: bool) -> CodeType:
    """Return the code of an `__init__` of so many fields, f0, f1, ...: to compile one takes longer than to rename them.

    placed, named: the fields that can be given by place, and by name alone. has_more: whether `complete` is called.
    """
    names = [f"f{index}" for index in range(placed + named)]
    parameters = ["self", *names[:placed], *(["*", *names[placed:]] if named else [])]
    lines = [f"self.{name} = {name}" for name in names] + (["complete(self)"] if has_more else [])
    known: dict[str, Any] = {}
    exec(f"def __init__({', '.join(parameters)}):\n {'; '.join(lines) or 'pass'}", known)  # noqa: S102  numbers alone
    return known["__init__"].__code__  # type: ignore[no-any-return]

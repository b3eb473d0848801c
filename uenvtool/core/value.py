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
        cls.__init__ = _init(dataclasses.fields(cls), hasattr(cls, "__post_init__"))
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


def _init(fields: tuple[dataclasses.Field[Any], ...], has_post: bool) -> Any:
    """Return the `__init__` that dataclass would have made of the fields."""
    missing = dataclasses.MISSING
    known: dict[str, Any] = {"_missing": missing}
    positional: list[str] = ["self"]
    named: list[str] = []
    lines: list[str] = []
    for field in fields:
        if not field.init:  # `__post_init__` sets it
            continue
        default, value = "", field.name
        if field.default is not missing:
            default, known[f"_{field.name}_default"] = f"=_{field.name}_default", field.default
        elif field.default_factory is not missing:
            default, known[f"_{field.name}_made"] = "=_missing", field.default_factory
            value = f"_{field.name}_made() if {field.name} is _missing else {field.name}"
        (named if field.kw_only else positional).append(field.name + default)
        lines.append(f"    self.{field.name} = {value}")
    lines += ["    self.__post_init__()"] if has_post else []
    parameters = ", ".join([*positional, *(["*", *named] if named else [])])
    exec("\n".join([f"def __init__({parameters}):", *(lines or ["    pass"])]), known)  # noqa: S102  names of fields
    return known["__init__"]

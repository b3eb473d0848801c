"""Makes value classes: dataclasses that nobody changes, and that cost little to make.

`dataclass(frozen=True)` compiles six methods for each class. A hundred classes were a third of what `uenvtool job`
took, start and all. A value class has one of its own, `__init__`, which is compiled for the first value: of half of the
classes a command makes none. The others are shared, and mypy keeps values from being changed.
"""

from __future__ import annotations

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
    """Return the class as a value class: with slots, compared, hashed and shown by its fields.

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


def _made(cls: type, kw_only: bool) -> type:
    made: Any = dataclasses.dataclass(slots=True, kw_only=kw_only, init=False, eq=False, repr=False)(cls)
    fields = dataclasses.fields(made)
    names = [field.name for field in fields if field.compare]
    compared = attrgetter(*names) if names else type

    def first(self: object, *values: Any, **named: Any) -> None:
        made.__init__ = _init(fields, hasattr(made, "__post_init__"))
        made.__init__(self, *values, **named)

    def equals(self: object, other: object) -> bool:
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    def hashed(self: object) -> int:
        return hash(compared(self))

    def shown(self: object) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{type(self).__qualname__}({values})"

    for name, method in (("__init__", first), ("__eq__", equals), ("__hash__", hashed), ("__repr__", shown)):
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


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

"""Fills a frozen dataclass from a tree: a field has the name of its key, and its type says how it is read.

    with_: tuple[Look, ...]    a list under `with`, or a mapping
    when: Condition            a text that is a condition
    name: Key                  the name under which a mapping has the value
    position: Position         the place of the name of a mapping, else of the value

A field without default must be in the file. A class with a `shorthand` can be written as the value of that field
alone, whose place is then its own; with `at_its_name` that of its name. `unread` names keys that other code reads.

Modules of such classes do without `from __future__ import annotations`: each start would compile the types' texts anew.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.knowledge.condition import ALWAYS, Condition, ConditionSyntaxError, parse_condition
from uenvtool.knowledge.kinds import Kind
from uenvtool.knowledge.load import NOT_INHERITED, is_abstract, load_extended
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.schema import check_schema
from uenvtool.knowledge.spec import Spec, SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Version, Versions, versions
from uenvtool.knowledge.yamltree import Node, read

T = TypeVar("T")

Key = Annotated[str, "key"]
Verbatim = Annotated[str, "verbatim"]
"""A text as it is written, but for a newline at its end; the text of any other field is folded into one line."""
SpecText = Annotated[str, "spec"]
"""A text that has to be a spec."""


@dataclass(eq=False, repr=False)
class Binder:
    """Makes values of the nodes of a tree. `problems` grows; `finish` raises them all.

    special: how values of some types are read. facts: what conditions can ask for; none: that is not checked here.
    """

    tree: Node
    chain: tuple[Location, ...] = ()
    removed: frozenset[str] = frozenset()
    kind: str = ""
    special: Mapping[type, Callable[[Node, str], Any]] = field(default_factory=dict)
    facts: Sequence[str] = ()
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def of(cls, location: Location, kind: Kind, *, facts: Sequence[str] = ()) -> Binder:
        """Return the binder of a file with all that it extends. Raises BadInput as `load_extended`."""
        extended = load_extended(location, kind)
        return cls(extended.tree, extended.chain, extended.removed, kind.name, facts=facts)

    def whole(self, kind: type[T], /, **known: Any) -> T:
        """Return the value of the whole tree; see `fill`.

        Raises BadInput if it is abstract, or lacks what must be there. A file that ships is not checked against its
        schema each time; if it does not fit, the schema says why.
        """
        if is_abstract(self.tree):
            name = self.chain[0].name
            hint = f"name one that extends it, or write `extends: {name}` in a file of your own"
            raise BadInput(f"{name} is abstract: it exists to be extended", self.tree.value["abstract"].key, hint)
        try:
            return self.fill(kind, self.tree, **known)
        except BadInput:
            raise
        except Exception:
            for location in self.chain:
                check_schema(read(location.path, location.shown), self.kind)
            raise

    def fill(self, kind: type[T], node: Node, key: str = "", /, **known: Any) -> T:
        """Return the value of a node that a mapping has under `key`; known: fields that are not read.

        Raises BadInput if a field is missing, ValueError for a key that is unknown.
        """
        plan = _plan(kind)  # type: ignore[arg-type]
        entries = node.value if isinstance(node.value, dict) else {plan.shorthand: node}
        if not entries.keys() <= plan.keys:
            raise ValueError(f"{kind.__name__} has no {', '.join(sorted(entries.keys() - plan.keys))}")
        by_name = entries is node.value or getattr(kind, "at_its_name", False)
        place = node.key or node.position if by_name else node.position
        values = dict.fromkeys(plan.names, key) | dict.fromkeys(plan.places, place) | known
        for name, child in entries.items():
            if name in plan.entries:
                field, read_as = plan.entries[name]
                if field not in values:
                    values[field] = read_as(self, child, name)
        if not plan.required <= values.keys():
            missing = [name for name, (field, _) in plan.entries.items() if field in plan.required - values.keys()]
            for name in missing:
                self.problem(f"{name!r} is missing", node.position, "add it, or extend a file that has it")
            self.finish()
        return kind(**values)

    def finish(self) -> None:
        """Raise BadInput with everything that is wrong."""
        BadInput.raise_any(self.problems)

    def problem(self, message: str, position: Position | None, hint: str | None = None) -> None:
        """Note something that is wrong."""
        self.problems.append(Problem(message, position, hint))

    def condition(self, node: Node) -> Condition:
        """Return the condition that a node has; ALWAYS, with a problem noted, if it is none."""
        return _condition(self, node, "")

    def folder_of(self, node: Node) -> Path:
        """Return the folder of the file that a value stands in: the user's, or that of a file that it extends."""
        return next(location.path.parent for location in self.chain if location.shown == node.position.file)


def children(node: Node | None, *names: str) -> Iterator[tuple[str, Node]]:
    """Return the names and values of a mapping, or the values of a list, which names below a node lead to."""
    for name in names:
        node = node.get(name) if node is not None else None
    if node is None or node.value is None or node.value is True:
        return iter(())
    return iter(node.value.items() if isinstance(node.value, dict) else [("", child) for child in node.value])


Read = Callable[[Binder, Node, str], Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a class is filled.

    entries: by its key, each field that is read, and how. required: the fields that must be there. names, places: the
    fields with the name and with the place. keys: all that are known.
    """

    entries: dict[str, tuple[str, Read]]
    required: frozenset[str]
    names: tuple[str, ...]
    places: tuple[str, ...]
    keys: frozenset[str]
    shorthand: str


@cache
def _plan(kind: type) -> _Plan:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = [known for known in dataclasses.fields(kind) if known.init]
    read = [known for known in fields if hints[known.name] not in (Key, Position)]
    entries = {known.name.rstrip("_"): (known.name, _reader(hints[known.name])) for known in read}
    return _Plan(
        entries,
        frozenset(known.name for known in read if known.default is MISSING and known.default_factory is MISSING),
        tuple(known.name for known in fields if hints[known.name] == Key),
        tuple(known.name for known in fields if hints[known.name] is Position),
        frozenset(entries).union(getattr(kind, "unread", ()), NOT_INHERITED),
        getattr(kind, "shorthand", "").rstrip("_"),
    )


def _reader(hint: Any, *, of_field: bool = True) -> Read:
    if hint is str and not of_field:
        return _verbatim
    if hint in _READERS:
        return _READERS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, UnionType):
        inner = _reader(next(part for part in arguments if part is not type(None)), of_field=False)
        return lambda binder, node, key: None if node.value is None else inner(binder, node, key)
    if origin in (tuple, frozenset):
        inner, make = _reader(arguments[0], of_field=False), origin
        return lambda binder, node, _: make([inner(binder, child, key) for key, child in children(node)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = _reader(arguments[1], of_field=False)
        return lambda binder, node, _: {key: inner(binder, child, key) for key, child in children(node)}
    return _one_of(arguments) if origin is Literal else _value_of(hint)


def _one_of(words: tuple[str, ...]) -> Read:

    def read_word(binder: Binder, node: Node, key: str) -> str:
        word = _text(binder, node, key)
        if word not in words:
            raise ValueError(f"{node.position}: {word!r} is not one of {words}")
        return word

    return read_word


def _value_of(kind: type) -> Read:
    """Return what reads a value of a class: as the binder says, else a dataclass by its fields."""

    def read_value(binder: Binder, node: Node, key: str) -> Any:
        special = binder.special.get(kind)
        return special(node, key) if special else binder.fill(kind, node, key)

    return read_value


def _verbatim(_binder: Binder, node: Node, _key: str) -> str:
    if isinstance(node.value, dict | list):
        raise TypeError(f"{node.position}: no text")
    return "" if node.value is None else str(node.value).removesuffix("\n")


def _text(binder: Binder, node: Node, key: str) -> str:
    return " ".join(_verbatim(binder, node, key).split())


def _boolean(_binder: Binder, node: Node, _key: str) -> bool:
    if not isinstance(node.value, bool):
        raise TypeError(f"{node.position}: neither true nor false")
    return node.value


def _spec(binder: Binder, node: Node, _key: str) -> Spec:
    """Return the spec; one without a package if it is none."""
    try:
        return parse_spec(node.value)
    except SpecSyntaxError as error:
        place = Position(node.position.file, node.position.line, node.position.column + error.column - 1)
        binder.problem(f"not a spec: {error}", place, "a spec reads `name@version +variant name=value`")
        return Spec(text=node.value, package="")


def _condition(binder: Binder, node: Node, _key: str) -> Condition:
    try:
        condition = parse_condition(node.value)
    except ConditionSyntaxError as error:
        binder.problem(str(error), node.position, "a condition reads `fabric == slingshot and not gpu`")
        return ALWAYS
    if binder.facts:
        strange = [term.fact for term in condition.terms if term.fact not in binder.facts]
        binder.problems += [unknown("fact", fact, binder.facts, node.position) for fact in strange]
    return condition


def _versions(binder: Binder, node: Node, _key: str) -> Versions:
    try:
        return versions(str(node.value))
    except ValueError as error:
        binder.problem(str(error), node.position, "write a version such as 2.6.0, =2.6.0 or 2.6:2.8")
        return versions("0")


_READERS: dict[Any, Read] = {
    str: _text,
    Verbatim: _verbatim,
    SpecText: lambda binder, node, key: _spec(binder, node, key).text,
    int: lambda _binder, node, _: int(node.value),
    float: lambda _binder, node, _: float(node.value),
    bool: _boolean,
    Node: lambda _binder, node, _: node,
    Condition: _condition,
    Spec: _spec,
    Version: lambda _binder, node, _: Version(str(node.value)),
    Versions: _versions,
    Pattern: lambda binder, node, key: Pattern(_verbatim(binder, node, key)),
}

"""Fills a frozen dataclass from a tree: a field has the name of its key, and its type says how it is read.

    with_: tuple[Look, ...]    a list under `with`, or a mapping
    when: Condition            a text that is a condition
    name: Key                  the name under which a mapping has the value
    position: Position         the place of the name of a mapping, else of the value

A field without default must be in the file. A class with a `shorthand` can be written as the value of that field
alone, whose place is then its own; with `at_its_name` that of its name. `unread` names keys that other code reads.
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
        hashable: Any = kind  # a type variable is none to mypy, and @cache asks for one
        fields = _fields(hashable)
        is_mapping = isinstance(node.value, dict)
        entries = node.value if is_mapping else {getattr(kind, "shorthand", "").rstrip("_"): node}
        if strange := entries.keys() - fields.keys() - {*getattr(kind, "unread", ()), *NOT_INHERITED}:
            raise ValueError(f"{kind.__name__} has no {', '.join(sorted(strange))}")
        is_named = is_mapping or getattr(kind, "at_its_name", False)
        place = (is_named and node.key) or node.position
        values = dict(known)
        for name, wanted in fields.items():
            if wanted.name in known:
                continue
            if wanted.is_key:
                values[wanted.name] = key
            elif wanted.is_place:
                values[wanted.name] = place
            elif name in entries:
                values[wanted.name] = self.read(wanted.hint, entries[name], name)
        missing = [name for name, wanted in fields.items() if wanted.is_required and wanted.name not in values]
        for name in missing:
            self.problem(f"{name!r} is missing", node.position, "add it, or extend a file that has it")
        if missing:
            self.finish()
        return kind(**values)

    def read(self, hint: Any, node: Node, key: str = "") -> Any:
        """Return the value of a node as a type says; key: the name that the node is under."""
        if hint in self.special:
            return self.special[hint](node, key)
        if hint in _READERS:
            return _READERS[hint](self, node)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Literal:
            word = _text(node)
            if word not in arguments:
                raise ValueError(f"{node.position}: {word!r} is not one of {arguments}")
            return word
        if origin in (Union, UnionType):
            inner = next(part for part in arguments if part is not type(None))
            return None if node.value is None else self.read(_verbatim_if_text(inner), node, key)
        if origin in (tuple, frozenset):
            inner = _verbatim_if_text(arguments[0])
            return origin([self.read(inner, child, name) for name, child in children(node)])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            inner = _verbatim_if_text(arguments[1])
            return {name: self.read(inner, child, name) for name, child in children(node)}
        return self.fill(hint, node, key)

    def finish(self) -> None:
        """Raise BadInput with everything that is wrong."""
        BadInput.raise_any(self.problems)

    def problem(self, message: str, position: Position | None, hint: str | None = None) -> None:
        """Note something that is wrong."""
        self.problems.append(Problem(message, position, hint))

    def condition(self, node: Node) -> Condition:
        """Return the condition that a node has; ALWAYS, with a problem noted, if it is none."""
        return _condition(self, node)

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


@dataclass(frozen=True, slots=True)
class _Field:
    """A field that a file can say: by its type, or the name or the place of the whole."""

    name: str
    hint: Any
    is_key: bool
    is_place: bool
    is_required: bool


@cache
def _fields(kind: Any) -> dict[str, _Field]:
    """Return the fields of a class that a file can say, by their keys."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        known.name.rstrip("_"): _Field(
            name=known.name,
            hint=hints[known.name],
            is_key=hints[known.name] == Key,
            is_place=hints[known.name] is Position,
            is_required=known.default is MISSING and known.default_factory is MISSING,
        )
        for known in dataclasses.fields(kind)
        if known.init
    }


def _verbatim_if_text(hint: Any) -> Any:
    """Return how a part of a list or mapping is read: a text there is kept as it is written."""
    return Verbatim if hint is str else hint


def _verbatim(node: Node) -> str:
    if isinstance(node.value, dict | list):
        raise TypeError(f"{node.position}: no text")
    return "" if node.value is None else str(node.value).removesuffix("\n")


def _text(node: Node) -> str:
    return " ".join(_verbatim(node).split())


def _boolean(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise TypeError(f"{node.position}: neither true nor false")
    return node.value


def _spec(binder: Binder, node: Node) -> Spec:
    """Return the spec; one without a package if it is none."""
    try:
        return parse_spec(node.value)
    except SpecSyntaxError as error:
        place = Position(node.position.file, node.position.line, node.position.column + error.column - 1)
        binder.problem(f"not a spec: {error}", place, "a spec reads `name@version +variant name=value`")
        return Spec(text=node.value, package="")


def _condition(binder: Binder, node: Node) -> Condition:
    try:
        condition = parse_condition(node.value)
    except ConditionSyntaxError as error:
        binder.problem(str(error), node.position, "a condition reads `fabric == slingshot and not gpu`")
        return ALWAYS
    if binder.facts:
        strange = [term.fact for term in condition.terms if term.fact not in binder.facts]
        binder.problems += [unknown("fact", fact, binder.facts, node.position) for fact in strange]
    return condition


def _versions(binder: Binder, node: Node) -> Versions:
    try:
        return versions(str(node.value))
    except ValueError as error:
        binder.problem(str(error), node.position, "write a version such as 2.6.0, =2.6.0 or 2.6:2.8")
        return versions("0")


_READERS: dict[Any, Callable[[Binder, Node], Any]] = {
    str: lambda _, node: _text(node),
    Verbatim: lambda _, node: _verbatim(node),
    SpecText: lambda binder, node: _spec(binder, node).text,
    int: lambda _, node: int(node.value),
    float: lambda _, node: float(node.value),
    bool: lambda _, node: _boolean(node),
    Node: lambda _, node: node,
    Condition: _condition,
    Spec: _spec,
    Version: lambda _, node: Version(str(node.value)),
    Versions: _versions,
    Pattern: lambda _, node: Pattern(_verbatim(node)),
}

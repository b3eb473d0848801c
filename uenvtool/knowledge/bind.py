"""Fills a frozen dataclass from a tree of nodes.

The field and its YAML key have the same name, and the JSON Schema of the file describes it. The docstring of the
dataclass describes only what the schema does not contain. The type of the field determines how the value is read:

    with_: tuple[Look, ...]    a list under the key `with`, or a mapping
    when: Condition            a text that must be a condition
    name: Key                  the name under which a mapping contains the value
    position: Position         the position of that name, or else of the value

A field without a default is required in the file. If a class has a `shorthand`, the file may contain only the value of
that field instead of a mapping. `position` is then the position of this value, or of its name if the class sets
`at_its_name`. `unread` lists the keys that other code reads. The keys in FOR_READERS need no field.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.knowledge.condition import ALWAYS, Condition, ConditionSyntaxError, parse_condition
from uenvtool.knowledge.kinds import Kind
from uenvtool.knowledge.load import NOT_INHERITED, load_extended
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.schema import check_schema
from uenvtool.knowledge.spec import Spec, SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Version, Versions, versions
from uenvtool.knowledge.yamltree import Node, is_abstract, read

T = TypeVar("T")

Key = Annotated[str, "key"]
Verbatim = Annotated[str, "verbatim"]
"""A text that is kept as written, except for a final newline. Other texts are folded into one line."""
SpecText = Annotated[str, "spec"]
"""A text that must be a valid spec."""
FOR_READERS = ("description", "reason", "source")
"""The keys that explain a file to its readers. A class has a field for such a key only if uenvtool prints the text."""


@dataclass(eq=False, repr=False)
class Binder:
    """Fills dataclasses from the nodes of a tree. It collects problems, and `finish` raises them all.

    chain: The file and the files that it extends.
    removed: The inherited packages that the extending files remove.
    special: Custom readers, by type.
    facts: The facts that conditions may name. If it is empty, facts are not checked here.
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
        """Return the binder of a file and the files that it extends. Raises BadInput as `load_extended` does."""
        extended = load_extended(location, kind)
        return cls(extended.tree, extended.chain, extended.removed, kind.name, facts=facts)

    def whole(self, kind: type[T], /, **known: Any) -> T:
        """Return the value of the whole tree. Raises BadInput if the tree is abstract or as `fill` does.

        Built-in files are not checked against their schema each time. If such a file cannot be read, the schema reports
        the reason.
        """
        if is_abstract(self.tree):
            name = self.chain[0].name
            hint = f"name a {self.kind} that extends it, or write `extends: {name}` in your own file"
            raise BadInput(f"{name!r} is abstract and can only be extended", self.tree.value["abstract"].key, hint)
        try:
            return self.fill(kind, self.tree, **known)
        except BadInput:
            raise
        except Exception:
            for location in self.chain:
                check_schema(read(location.path, location.shown), self.kind)
            raise

    def fill(self, kind: type[T], node: Node, key: str = "", /, **known: Any) -> T:
        """Return the value of one node. known: The fields that are not read from the node.

        key: The name under which a mapping contains the node.

        Raises BadInput if a required field is missing, and ValueError if the class has no field for a key.
        """
        hashable: Any = kind  # @cache needs a hashable argument, and mypy does not know that a class is hashable
        fields = _fields(hashable)
        is_mapping = isinstance(node.value, dict)
        entries = node.value if is_mapping else {getattr(kind, "shorthand", "").rstrip("_"): node}
        read_elsewhere = {*getattr(kind, "unread", ()), *NOT_INHERITED, *FOR_READERS}
        if unknown_keys := entries.keys() - fields.keys() - read_elsewhere:
            raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown_keys))}")
        is_named = is_mapping or getattr(kind, "at_its_name", False)
        values, is_complete = dict(known), True
        for name, (bound, hint) in fields.items():
            if bound.name in known:
                continue
            if hint is Key:
                values[bound.name] = key
            elif hint is Position:
                values[bound.name] = (is_named and node.key) or node.position
            elif name in entries:
                values[bound.name] = self.read(hint, entries[name], name)
            elif bound.default is MISSING and bound.default_factory is MISSING:
                self.problem(f"{name!r} is missing", node.position, "add it, or extend a file that contains it")
                is_complete = False
        if not is_complete:
            self.finish()
        return kind(**values)

    def read(self, hint: Any, node: Node, key: str = "") -> Any:
        """Return the value of a node as the given type. key: The name under which a mapping contains the node."""
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
        """Raise BadInput with all problems, if there are any."""
        BadInput.raise_any(self.problems)

    def problem(self, message: str, position: Position | None, hint: str | None = None) -> None:
        """Record a problem, which `finish` raises."""
        self.problems.append(Problem(message, position, hint))

    def condition(self, node: Node) -> Condition:
        """Return the condition in a node. If the text is not a condition, record a problem and return ALWAYS."""
        try:
            condition = parse_condition(node.value)
        except ConditionSyntaxError as error:
            self.problem(str(error), node.position, "write the condition as in `fabric == slingshot and not gpu`")
            return ALWAYS
        if self.facts:
            unknown_facts = [term.fact for term in condition.terms if term.fact not in self.facts]
            self.problems += [unknown("fact", fact, self.facts, node.position) for fact in unknown_facts]
        return condition

    def directory_of(self, node: Node) -> Path:
        """Return the directory of the file that contains a value, which can be an extended file."""
        return next(location.path.parent for location in self.chain if location.shown == node.position.file)


def bound(kind: type[T], location: Location, file_kind: Kind, /, *, facts: Sequence[str] = (), **known: Any) -> T:
    """Return the value of a file. Raises BadInput with all problems.

    known: The fields that are not read from the file.
    """
    binder = Binder.of(location, file_kind, facts=facts)
    value = binder.whole(kind, **known)
    binder.finish()
    return value


def children(node: Node | None, *names: str) -> Iterator[tuple[str, Node]]:
    """Return the entries of the mapping or list at a path of names below a node.

    Each entry is a name and a value. The entries of a list have an empty name.
    """
    for name in names:
        node = node.get(name) if node is not None else None
    if node is None or node.value is None or node.value is True:
        return iter(())
    return iter(node.value.items() if isinstance(node.value, dict) else [("", child) for child in node.value])


@cache
def _fields(kind: Any) -> dict[str, tuple[Field[Any], Any]]:
    """Return the fields of a dataclass with their types, by their YAML keys."""
    hints = typing.get_type_hints(kind, include_extras=True)
    init_fields = (known for known in dataclasses.fields(kind) if known.init)
    return {known.name.rstrip("_"): (known, hints[known.name]) for known in init_fields}


def _verbatim_if_text(hint: Any) -> Any:
    return Verbatim if hint is str else hint


def _verbatim(node: Node) -> str:
    if isinstance(node.value, dict | list):
        raise TypeError(f"{node.position}: expected a text")
    return "" if node.value is None else str(node.value).removesuffix("\n")


def _text(node: Node) -> str:
    return " ".join(_verbatim(node).split())


def _boolean(node: Node) -> bool:
    if not isinstance(node.value, bool):
        raise TypeError(f"{node.position}: expected true or false")
    return node.value


def _spec(binder: Binder, node: Node) -> Spec:
    try:
        return parse_spec(node.value)
    except SpecSyntaxError as error:
        place = Position(node.position.file, node.position.line, node.position.column + error.column - 1)
        binder.problem(f"not a valid spec: {error}", place, "write the spec as `name@version +variant name=value`")
        return Spec(text=node.value, package="")


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
    Condition: Binder.condition,
    Spec: _spec,
    Version: lambda _, node: Version(str(node.value)),
    Versions: _versions,
    Pattern: lambda _, node: Pattern(_verbatim(node)),
}

"""Reads values out of a merged tree and collects what is wrong on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.knowledge.condition import ALWAYS, Condition, ConditionSyntaxError, parse_condition
from uenvtool.knowledge.extend import Extended
from uenvtool.knowledge.parts import GitPin
from uenvtool.knowledge.source import Node, text
from uenvtool.knowledge.spec import Spec, SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Versions, versions

__all__ = ["TreeReader", "children", "git_pin", "is_abstract", "text", "texts"]


def is_abstract(tree: Node) -> bool:
    """Whether a recipe or system exists to be extended only."""
    abstract = tree.get("abstract")
    return abstract is not None and abstract.value is True


class TreeReader:
    """What the readers of recipes and systems share. `problems` grows; `fail_if_wrong` raises them all."""

    def __init__(self, extended: Extended) -> None:
        self.tree = extended.tree
        self.chain = extended.chain
        self.removed = extended.removed
        self.problems: list[Problem] = []

    def require(self, names: Iterable[str]) -> None:
        """Refuse a tree that is abstract or lacks one of the names."""
        if is_abstract(self.tree):
            name = self.chain[0].name
            raise BadInput(
                f"{name} is abstract: it exists to be extended",
                self.tree.value["abstract"].key,
                f"name one that extends it, or write `extends: {name}` in a file of your own",
            )
        for name in names:
            if self.tree.get(name) is None:
                self.problem(f"{name!r} is missing", self.tree.position, "add it, or extend a file that has it")
        self.fail_if_wrong()

    def problem(self, message: str, position: Position | None, hint: str | None = None) -> None:
        """Note something that is wrong."""
        self.problems.append(Problem(message, position, hint))

    def fail_if_wrong(self) -> None:
        """Raise BadInput with everything that was noted."""
        if self.problems:
            raise BadInput(self.problems)

    def items(self, name: str) -> list[Node]:
        """The entries of a list at the top of the tree; none if it is not there."""
        node = self.tree.get(name)
        return node.value if node else []

    def pattern(self, node: Node, key: str) -> re.Pattern[str] | None:
        """The regular expression under a key; None if there is none, or it is wrong."""
        child = node.get(key)
        if child is None:
            return None
        try:
            return re.compile(str(child.value))
        except re.error as error:
            self.problem(f"not a regular expression: {error}", child.position, "see Python's `re`")
            return None

    def folder_of(self, node: Node) -> Path:
        """The folder of the file that a value stands in: the user's, or that of a file that it extends."""
        return next(location.path.parent for location in self.chain if location.shown == node.position.file)

    def strings(self, name: str) -> tuple[str, ...]:
        """The texts of a list at the top of the tree."""
        return tuple(str(node.value) for node in self.items(name))

    def entries(self, name: str) -> list[tuple[str, Node]]:
        """The names and values of a mapping at the top of the tree."""
        return children(self.tree, name)

    def spec(self, node: Node) -> Spec:
        """The spec in a scalar; one without a package if it is none."""
        try:
            return parse_spec(node.value)
        except SpecSyntaxError as error:
            column = node.position.column + error.column - 1
            self.problem(
                f"not a spec: {error}",
                Position(node.position.file, node.position.line, column),
                "a spec reads `name@version +variant name=value`",
            )
            return Spec(text=node.value, package="")

    def when(self, node: Node) -> Condition:
        """The condition under `when`; ALWAYS if there is none."""
        when = node.get("when") if isinstance(node.value, dict) else None
        if when is None:
            return ALWAYS
        try:
            return parse_condition(when.value)
        except ConditionSyntaxError as error:
            self.problem(str(error), when.position, "a condition reads `fabric == slingshot and not gpu`")
            return ALWAYS

    def constraint(self, node: Node) -> Versions:
        """The version constraint in a scalar."""
        try:
            return versions(str(node.value))
        except ValueError as error:
            self.problem(str(error), node.position, "write a version such as 2.6.0, =2.6.0 or 2.6:2.8")
            return versions("0")


def children(node: Node | None, name: str) -> list[tuple[str, Node]]:
    """The names and values of a mapping in a mapping; none if it is not there."""
    child = node.get(name) if node is not None else None
    return list(child.value.items()) if child else []


def texts(node: Node, name: str) -> tuple[str, ...]:
    """The texts of a list in a mapping; none if it is not there."""
    child = node.get(name)
    return tuple(str(entry.value) for entry in child.value) if child else ()


def git_pin(node: Node) -> GitPin:
    """A pinned git repository."""
    return GitPin(
        url=text(node, "url"),
        tag=text(node, "tag") or None,
        commit=text(node, "commit") or None,
        paths=texts(node, "paths"),
    )

"""Reads files of rules: `rules/*.yaml`, or everything that is wrong in them."""

from __future__ import annotations

import re

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.kinds import RULES
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.reader import TreeReader, text
from uenvtool.knowledge.rule import Edit, Look, Rule, RuleFile
from uenvtool.knowledge.sound import elsewhere, sound, twice
from uenvtool.knowledge.source import Node

LOOKS = ("directive", "late", "variable", "command", "last", "entry", "line")
"""The kinds of parts that a rule can look for; the schema describes them."""


def load_rule_file(name: str) -> RuleFile:
    """The rules of one file, by its name or path.

    Raises BadInput with every problem found, also for a rule that another file has too.
    """
    file = _load(locate(RULES, name))
    others = elsewhere(RULES, file.name, lambda location: _load(location).rules)
    problems = list(twice(file.rules, others, "the rule "))
    if problems:
        raise BadInput(problems)
    return file


def load_rules() -> dict[str, Rule]:
    """Every rule by id."""
    return {name: rule for location in sound(RULES).values() for name, rule in _load(location).rules.items()}


def _load(location: Location) -> RuleFile:
    return _Reader(load_extended(location, RULES)).file()


class _Reader(TreeReader):
    """Makes rules of a tree."""

    def file(self) -> RuleFile:
        rules = {name: self.rule(name, node) for name, node in self.entries("rules")}
        self.fail_if_wrong()
        return RuleFile(self.chain[0].name, text(self.tree, "description"), rules)

    def rule(self, name: str, node: Node) -> Rule:
        if node.get("missing") and not node.get("with"):
            self.problem("`missing` needs `with`", node.position, "say where the finding is reported")
        kinds = node.get("for")
        secret = node.get("secret")
        return Rule(
            id=name,
            **{key: text(node, key) for key in ("severity", "what", "cost", "fix", "source", "finder")},
            position=node.key or node.position,
            look=self.looks(node, "look"),
            missing=self.looks(node, "missing"),
            applies_to=frozenset(str(child.value) for child in (kinds.value if kinds else ())),
            together=self.looks(node, "with"),
            alone=self.looks(node, "without"),
            when=self.when(node),
            edit=self.edit(node.get("edit")),
            is_secret=secret is not None and secret.value is True,
        )

    def edit(self, node: Node | None) -> Edit | None:
        find = self.pattern(node, "find") if node else None
        return Edit(find, text(node, "replace")) if find else None

    def looks(self, node: Node, key: str) -> tuple[Look, ...]:
        listed = node.get(key)
        return tuple(self.look(child) for child in (listed.value if listed else ()))

    def look(self, node: Node) -> Look:
        kind = next(kind for kind in LOOKS if node.get(kind))
        name, value, unlike = (self.pattern(node, key) for key in (kind, "value", "unlike"))
        return Look(kind=kind, name=name or re.compile(""), value=value, unlike=unlike, scope=text(node, "scope"))

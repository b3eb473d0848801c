"""Reads files of rules: `rules/*.yaml`, or everything that is wrong in them."""

from __future__ import annotations

import re

from uenvtool.core.errors import BadInput, unknown
from uenvtool.knowledge.condition import Condition
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.finding import RISK
from uenvtool.knowledge.kinds import RULES
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.reader import TreeReader, text
from uenvtool.knowledge.rule import Look, Rule, RuleFile
from uenvtool.knowledge.sound import elsewhere, sound, twice
from uenvtool.knowledge.source import Node

SLURM = "slurm"
"""The fact that the condition of a rule can ask for."""
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
        return Rule(
            id=name,
            why=text(node, "why"),
            cost=text(node, "cost"),
            fix=text(node, "fix"),
            source=text(node, "source"),
            position=node.key or node.position,
            look=self.looks(node, "look"),
            missing=self.looks(node, "missing"),
            finder=text(node, "finder"),
            when=self.rule_condition(node),
            severity=text(node, "severity") or RISK,
            applies_to=frozenset(str(child.value) for child in (kinds.value if kinds else ())),
            together=self.looks(node, "with"),
            alone=self.looks(node, "without"),
        )

    def rule_condition(self, node: Node) -> Condition:
        """Where a rule counts; the one fact is the version of Slurm."""
        condition = self.when(node)
        for term in condition.terms:
            if term.fact != SLURM:
                self.problems.append(unknown("fact", term.fact, (SLURM,), node.value["when"].position))
        return condition

    def looks(self, node: Node, key: str) -> tuple[Look, ...]:
        listed = node.get(key)
        return tuple(self.look(child) for child in (listed.value if listed else ()))

    def look(self, node: Node) -> Look:
        kind = next(kind for kind in LOOKS if node.get(kind))
        name, value, unlike = (self.pattern(node, key) for key in (kind, "value", "unlike"))
        return Look(kind=kind, name=name or re.compile(""), value=value, unlike=unlike, scope=text(node, "scope"))

"""What is known of a rule of `uenvtool job check`, for `uenvtool explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uenvtool.knowledge.rule_reader import load_rules


def rules_named(names: Sequence[str]) -> list[dict[str, Any]]:
    """The rules of those names as data; a name that is no rule's is left out."""
    rules = load_rules() if any(name.islower() for name in names) else {}
    return [
        {
            "rule": name,
            "severity": rules[name].severity,
            "what": rules[name].what,
            "cost": rules[name].cost,
            "fix": rules[name].fix,
            "source": rules[name].source,
            "file": str(rules[name].position),
        }
        for name in names
        if name in rules
    ]


def rule_text(entry: dict[str, Any]) -> str:
    """A rule to be read."""
    names = ("severity", "what", "cost", "fix", "source", "file")
    return "\n".join(
        [f"{entry['rule']}  (uenvtool job check)", *(f"  {name + ':':<10} {entry[name]}" for name in names)]
    )

"""Which packages of a base are not replaced without being named, and what replacing them costs."""

from __future__ import annotations

import fnmatch
import functools
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "protected.yaml"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of protected.yaml."""

    pattern: str
    cost: str
    refuse_missing: bool
    harmless: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether the rule is about a normalized name."""
        return fnmatch.fnmatchcase(name, self.pattern) and not any(
            fnmatch.fnmatchcase(name, each) for each in self.harmless
        )


@functools.cache
def rules() -> tuple[Rule, ...]:
    """The rules in their order."""
    import yaml

    data = yaml.load(DATA.read_bytes(), Loader=yaml.CSafeLoader)
    return tuple(
        Rule(each["name"], " ".join(each["cost"].split()), each["missing"] == "refuse", tuple(each.get("except", ())))
        for each in data["protected"]
    )


def protected(name: str) -> Rule | None:
    """The rule that protects a normalized name, or None."""
    return next((rule for rule in rules() if rule.covers(name)), None)

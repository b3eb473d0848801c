"""Which packages of a base are not replaced without being named, and what replacing them costs."""

from __future__ import annotations

import fnmatch
import functools
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parent / "protected.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One line of protected.yaml.

    cost: what replacing the package costs. refuse_missing: it is not installed for another package beside a base
    that has torch. harmless: names that the pattern covers and that carry no library.
    """

    pattern: str
    cost: str
    refuse_missing: bool
    harmless: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """Tell if the rule is about a normalized name."""
        return fnmatch.fnmatchcase(name, self.pattern) and not any(
            fnmatch.fnmatchcase(name, pattern) for pattern in self.harmless
        )


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return the rules in their order."""
    import yaml

    data = yaml.load(DATA.read_bytes(), Loader=yaml.CSafeLoader)
    return tuple(
        Rule(
            pattern=rule["name"],
            cost=" ".join(rule["cost"].split()),
            refuse_missing=rule["missing"] == "refuse",
            harmless=tuple(rule.get("except", ())),
        )
        for rule in data["protected"]
    )


def protected(name: str) -> Rule | None:
    """Return the rule that protects a normalized name; None if nothing does."""
    return next((rule for rule in rules() if rule.covers(name)), None)

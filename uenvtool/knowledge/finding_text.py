"""What is known of a finding of `uenvtool doctor`, for `uenvtool explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uenvtool.knowledge.finding_reader import load_findings


def findings_named(names: Sequence[str]) -> list[dict[str, Any]]:
    """The findings of those names as data; a name that is no finding's is left out."""
    known = load_findings().findings if any(name.islower() for name in names) else {}
    return [
        {
            "finding": name,
            "severity": known[name].severity,
            "what": known[name].what,
            "why": known[name].why,
            "fix": known[name].fix,
            "paste": known[name].command,
            "workaround": known[name].workaround,
            "lines": [line.text.strip() for line in known[name].log],
            "source": known[name].source,
            "file": str(known[name].position),
        }
        for name in names
        if name in known
    ]


def finding_text(entry: dict[str, Any]) -> str:
    """A finding to be read."""
    words = ("severity", "what", "why", "fix", "paste", "workaround", "source", "file")
    lines = [f"  {word + ':':<11} {entry[word]}" for word in words if entry[word]]
    lines += [f"  {'in a log:':<11} {text}" for text in entry["lines"]]
    return "\n".join([f"{entry['finding']}  (uenvtool doctor)", *lines])

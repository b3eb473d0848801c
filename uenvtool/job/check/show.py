"""Findings as text for people, and as the reports that GitHub and GitLab read; pure."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from uenvtool import __version__
from uenvtool.core.result import Line
from uenvtool.core.words import wrapped
from uenvtool.job.check.findings import Finding
from uenvtool.knowledge.rule import ERROR, HINT, LEVELS, WARNING

COLOURS = {ERROR: "red", WARNING: "yellow", HINT: "blue"}
_SARIF = {ERROR: "error", WARNING: "warning", HINT: "note"}
_GITLAB = {ERROR: "critical", WARNING: "minor", HINT: "info"}


def report(
    found: Sequence[Finding], width: int, *, explain: bool = False, changes: Sequence[str] = ()
) -> Iterator[Line]:
    """Yield the findings as lines for a terminal of that width; 0: for a pipe, one line each. changes: stand first."""
    for change in filter(None, changes):
        yield from ([(line, "")] for line in [*change.splitlines(), ""])
    for i, finding in enumerate(found):
        if width:
            yield from [[("", "")]] if i else []
            yield from _block(finding, width, explain=explain)
        else:
            more = f"; cost: {finding.rule.cost}; source: {finding.rule.source}" if explain else ""
            start = f"{finding.position}: {finding.severity}[{finding.rule.id}]"
            yield [(f"{start} {finding.sentence}; fix: {finding.fix}{more}", "")]


def _block(finding: Finding, width: int, *, explain: bool) -> Iterator[Line]:
    """Yield one finding: its place, the sentence, the script's line with carets, and the fix."""
    colour = COLOURS[finding.severity]
    yield [(f"{finding.position}: ", "bold"), (f"{finding.severity}[{finding.rule.id}]", colour, finding.rule.page)]
    yield from ([(line, "")] for line in wrapped(finding.sentence, width, "  ", "  "))
    number = str(finding.position.line)
    gutter = " " * len(number)
    line, start, marked = _window(finding, max(width - len(number) - 5, 20))
    yield [(f"  {number} | ", "dim"), (line, "")]
    yield [(f"  {gutter} | ", "dim"), (" " * start + "^" * marked, colour)]
    rows = [("fix", finding.fix), *([("cost", finding.rule.cost), ("source", finding.rule.source)] if explain else [])]
    for name, text in rows:
        indent = " " * len(f"  {name}: ")
        first, *rest = wrapped(text, width, indent, indent)
        yield [(f"  {name}: ", colour if name == "fix" else "dim"), (first.lstrip(), "")]
        yield from ([(line, "")] for line in rest)


def _window(finding: Finding, width: int) -> tuple[str, int, int]:
    """Return as much of the script's line as fits, and where in it what was found begins and how wide it is."""
    line = finding.line.expandtabs(1)
    indent = len(line) - len(line.lstrip())
    start = finding.position.column - 1
    cut = indent if start - indent + min(finding.width, 20) <= width else start - width // 3
    shown = line[cut:] if cut == indent else f"...{line[cut + 3 :]}"
    if len(shown) > width:
        shown = f"{shown[: width - 3]}..."
    return shown, start - cut, max(min(finding.width, len(shown) - (start - cut)), 1)


def summary(found: Sequence[Finding], files: int, everything: bool) -> str:
    """Return how many of each severity there are, and what can be done about them."""
    count = Counter(finding.severity for finding in found)
    shown = [f"{count[level]} {level}{'s' if count[level] > 1 else ''}" for level in LEVELS[:2] if count[level]]
    where = f"{files} file{'s' if files > 1 else ''}"
    text = f"{' and '.join(shown)} in {where}" if shown else f"no problems found in {where}"
    if count[HINT]:
        hints = f"{count[HINT]} hint{'s' if count[HINT] > 1 else ''}"
        text += f", {hints}" if everything else f" ({hints}: --all)"
    safe = sum(bool(finding.edits) for finding in found)
    text += f"; --fix mends {safe}" if safe else ""
    return text


def difference(name: str, old: str, new: str) -> str:
    """Return what --fix changes in a script as a unified diff; empty if that is nothing."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"{name} (now)", f"{name} (mended)", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def sarif(found: Iterable[Finding]) -> str:
    """Return the findings in the Static Analysis Results Interchange Format 2.1.0."""
    found = list(found)
    rules = {finding.rule.id: finding.rule for finding in found}
    tool = {
        "name": "uenvtool",
        "version": __version__,
        "rules": [
            {
                "id": name,
                "shortDescription": {"text": rule.what},
                "fullDescription": {"text": f"{rule.what}. Cost: {rule.cost}."},
                "help": {"text": f"{rule.fix}\nSource: {rule.source}"},
                **({"helpUri": rule.page} if rule.page else {}),
                "defaultConfiguration": {"level": _SARIF[rule.severity]},
            }
            for name, rule in rules.items()
        ],
    }
    results = [
        {
            "ruleId": finding.rule.id,
            "level": _SARIF[finding.severity],
            "message": {"text": f"{finding.sentence}. Fix: {finding.fix}"},
            "locations": [{"physicalLocation": _place(finding)}],
            "partialFingerprints": {"uenvtool/v1": _fingerprint(finding)},
        }
        for finding in found
    ]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": tool}, "columnKind": "unicodeCodePoints", "results": results}],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _place(finding: Finding) -> dict[str, object]:
    column = finding.position.column
    return {
        "artifactLocation": {"uri": finding.position.file},
        "region": {"startLine": finding.position.line, "startColumn": column, "endColumn": column + finding.width},
    }


def code_quality(found: Iterable[Finding]) -> str:
    """Return the findings as GitLab's code quality report."""
    entries = [
        {
            "description": f"{finding.sentence}. Fix: {finding.fix}",
            "check_name": finding.rule.id,
            "fingerprint": _fingerprint(finding),
            "severity": _GITLAB[finding.severity],
            "location": {"path": finding.position.file, "lines": {"begin": finding.position.line}},
        }
        for finding in found
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def _fingerprint(finding: Finding) -> str:
    """Return what stays the same when lines are put above a finding."""
    import hashlib

    return hashlib.sha256(f"{finding.position.file}\0{finding.rule.id}\0{finding.line.strip()}".encode()).hexdigest()
